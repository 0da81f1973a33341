"""lalamo 0.17, which reads the package that masu writes; in float32 unless told otherwise.

Its own choice is bfloat16, in which its products take twice as long on a CPU.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

# It sets JAX up, and so must be there first.
from lalamo.models.language_model import (  # pyright: ignore[reportMissingImports]
    GenerationConfig,
    LanguageModel,
)
from lalamo.module import Keychain  # pyright: ignore[reportMissingImports]
from lalamo.modules import (  # pyright: ignore[reportMissingImports]
    DecoderForwardPassConfig,
    ForwardPassMode,
)
from lalamo.utils.sharding import ShardingConfig  # pyright: ignore[reportMissingImports]

# isort: split
import jax.numpy as jnp
from serving import serve
from tokenizers import Tokenizer

ROOM = 64
"""Its caches hold the prompt and what is asked for, and each size is compiled: sizes go by this."""


class Lalamo:
    def __init__(self, options: argparse.Namespace) -> None:
        self.activations = options.dtype or "float32"
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
            -(-max_tokens // ROOM) * ROOM,
            jnp.zeros(0, jnp.int32),
            self._passes(ForwardPassMode.MULTI_TOKEN),
            self._passes(ForwardPassMode.SINGLE_TOKEN),
            keychain=Keychain.init(0, sharding_config=self._model.sharding_config),
        )
        for token in islice(tokens, max_tokens):
            yield int(token)

    def _passes(self, mode: ForwardPassMode) -> DecoderForwardPassConfig:
        usual = DecoderForwardPassConfig.for_inference(mode)
        dtype = jnp.dtype(self.activations)
        embedding = replace(usual.embedding_forward_pass_config, activation_dtype=dtype)
        return replace(usual, embedding_forward_pass_config=embedding)


if __name__ == "__main__":
    serve(Lalamo, ["lalamo", "jax"])
