"""masu, by the function that `masu run` generates with."""

import argparse
from collections.abc import Iterator, Sequence

from serving import serve

from masu.cli.jax_settings import configure_jax
from masu.runtime.backends import why_not
from masu.runtime.generate import Ending, generate
from masu.runtime.language_model import LanguageModel, load
from masu.runtime.sampling import Sampling

GREEDY = Sampling(temperature=0.0)


class Masu:
    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.activations = str(model.decoder.dtype)

    def encode(self, text: str) -> list[int]:
        return self._model.tokenizer.encode_prompt(text)

    def decode(self, ids: Sequence[int]) -> str:
        return self._model.tokenizer.decode(list(ids))

    def generate(self, ids: Sequence[int], max_tokens: int) -> Iterator[int]:
        ending = Ending(max_tokens=max_tokens)
        for token in generate(self._model.decoder, ids, GREEDY, ending):
            yield token.id


def opened(options: argparse.Namespace) -> Masu:
    configure_jax()
    # Without kernels of masu's own it is the processors that it is bound to that set the number.
    threads = options.threads if why_not("native") is None else None
    return Masu(load(options.path, dtype=options.dtype, threads=threads))


if __name__ == "__main__":
    serve(opened, ["masu", "jax", "numpy"])
