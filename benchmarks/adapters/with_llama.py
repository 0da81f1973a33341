"""llama.cpp, by llama-cpp-python; it reads the GGUF file as it is."""

import argparse
from collections.abc import Iterator, Sequence
from itertools import islice

from llama_cpp import Llama  # pyright: ignore[reportMissingImports]
from serving import serve


class LlamaCpp:
    activations = "float32, 8 bits in products"

    def __init__(self, options: argparse.Namespace) -> None:
        self._model = Llama(
            str(options.path),
            n_ctx=options.context,
            n_threads=options.threads,
            n_threads_batch=options.threads,
            verbose=False,
        )

    def encode(self, text: str) -> list[int]:
        return self._model.tokenize(text.encode(), add_bos=True, special=True)

    def decode(self, ids: Sequence[int]) -> str:
        return self._model.detokenize(list(ids)).decode(errors="replace")

    def generate(self, ids: Sequence[int], max_tokens: int) -> Iterator[int]:
        self._model.reset()  # or it goes on from what the prompts have in common
        return islice(self._model.generate(ids, temp=0.0, top_k=1, repeat_penalty=1.0), max_tokens)


if __name__ == "__main__":
    serve(LlamaCpp, ["llama-cpp-python", "numpy"])
