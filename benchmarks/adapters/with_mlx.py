"""mlx-lm on MLX's CPU device."""

import argparse
from collections.abc import Iterator, Sequence

import mlx.core as mx  # pyright: ignore[reportMissingImports]
from mlx_lm import load  # pyright: ignore[reportMissingImports]
from mlx_lm.generate import generate_step  # pyright: ignore[reportMissingImports]
from serving import serve


class MlxLm:
    def __init__(self, options: argparse.Namespace) -> None:
        self._model, self._tokenizer = load(str(options.path))

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(list(ids))

    def generate(self, ids: Sequence[int], max_tokens: int) -> Iterator[int]:
        for token, _ in generate_step(mx.array(list(ids)), self._model, max_tokens=max_tokens):
            yield int(token)


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    serve(MlxLm, ["mlx", "mlx-lm"])
