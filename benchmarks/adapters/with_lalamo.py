"""lalamo 0.17, which reads the package that masu writes."""

import argparse
from collections.abc import Iterator, Sequence

import jax.numpy as jnp
from lalamo.models.language_model import (  # pyright: ignore[reportMissingImports]
    GenerationConfig,
    LanguageModel,
)
from lalamo.module import Keychain  # pyright: ignore[reportMissingImports]
from lalamo.utils.sharding import ShardingConfig  # pyright: ignore[reportMissingImports]
from serving import serve
from tokenizers import Tokenizer


class Lalamo:
    def __init__(self, options: argparse.Namespace) -> None:
        self._model = LanguageModel.load(options.path, ShardingConfig.replicated())
        self._tokenizer = Tokenizer.from_file(str(options.path / "tokenizer.json"))

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text).ids

    def decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(list(ids))

    def generate(self, ids: Sequence[int], max_tokens: int) -> Iterator[int]:
        tokens = self._model.stream_tokens(
            jnp.asarray(list(ids), jnp.int32),
            GenerationConfig(temperature=0.0),
            max_tokens,
            jnp.zeros(0, jnp.int32),
            keychain=Keychain.init(0, sharding_config=self._model.sharding_config),
        )
        for token in tokens:
            yield int(token)


if __name__ == "__main__":
    serve(Lalamo, ["lalamo", "jax"])
