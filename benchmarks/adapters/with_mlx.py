"""mlx-lm on MLX's CPU device, in float32 unless another type is asked for.

Codes stay as they are; scales, offsets and norms become float32, and so do the activations: in
bfloat16 that device is some ten times slower, in float16 a hundred times.
"""

import argparse
from collections.abc import Iterator, Sequence

import mlx.core as mx  # pyright: ignore[reportMissingImports]
from mlx_lm import load  # pyright: ignore[reportMissingImports]
from mlx_lm.generate import generate_step  # pyright: ignore[reportMissingImports]
from serving import serve


class MlxLm:
    def __init__(self, options: argparse.Namespace) -> None:
        self.activations = options.dtype or "float32"
        self._model, self._tokenizer = load(str(options.path))
        self._model.set_dtype(getattr(mx, self.activations))

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
