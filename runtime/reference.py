"""The forward pass in float64, one layer in memory at a time: what other runs are judged by."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from masu.runtime.admission import admit
from masu.runtime.backend import Array
from masu.runtime.backends import load_backend
from masu.runtime.blocks import decoder, layer, rope
from masu.runtime.blocks.decoder import EntryConfig, ExitConfig
from masu.runtime.blocks.registry import MIXERS
from masu.runtime.blocks.wiring import Wiring
from masu.runtime.loader import Loader, TensorSource
from masu.runtime.prompt import TokenIds, checked_ids
from masu.specs.blocks.decoder import DecoderConfig

FLOAT64 = np.dtype(np.float64)


def reference_logits(source: TensorSource, ids: TokenIds) -> np.ndarray:
    """Float64 logits `[tokens, vocab]` of a whole sequence.

    Raises:
        RequestError, SchemaError, TensorError: as `load_model`.
    """
    *_, (_, logits) = reference_stages(source, ids)
    return logits


def reference_stages(source: TensorSource, ids: TokenIds) -> Iterator[tuple[str, np.ndarray]]:
    """The stream `[tokens, width]` as it grows, by the path of what made it, then the logits.

    `("decoder.embedding", ...)`, `("decoder.transformer.layers.0", ...)`, ..., `("logits", ...)`.
    The parameters of a stage are dropped before those of the next are read.
    """
    model = admit(source.config).decoder_config
    tokens = checked_ids(ids, model.vocab_size)
    loader = Loader(source, load_backend("numpy"), FLOAT64)
    stages = _Stages(model, loader.under("decoder"), len(tokens))
    x, angles = stages.enter(tokens)
    yield "decoder.embedding", x
    for index in range(len(model.transformer_config.layer_configs)):
        x = stages.layer(index, x, angles)
        yield f"decoder.transformer.layers.{index}", x
    logits = stages.leave(x)
    loader.finish()
    yield "logits", logits


class _Stages:
    """Each stage loads what it needs, runs it, and returns without it; only states are kept."""

    def __init__(self, model: DecoderConfig, loader: Loader, length: int) -> None:
        self.model, self.loader, self.length = model, loader, length
        self.backend = load_backend("numpy")
        self.wiring = Wiring.of(model.transformer_config)
        self.states: list[Any] = []

    def enter(self, tokens: np.ndarray) -> tuple[Array, tuple[tuple[Array, Array], ...]]:
        parameters = decoder.load_entry(self.model, self.loader)
        self.loader.check()
        rotations = [
            rope.rotation(config, self.length, self.backend, FLOAT64)
            for config in self.wiring.ropes
        ]
        config = EntryConfig.of(self.model, FLOAT64)
        return decoder.enter(self.backend, config, parameters, tokens, np.int32(0), rotations)

    def layer(self, index: int, x: Array, angles: Sequence[tuple[Array, Array]]) -> Array:
        config = self.model.transformer_config.layer_configs[index]
        mixer = config.mixer_config
        parameters = decoder.load_layer(self.model, self.loader, index)
        self.loader.check()
        state = MIXERS[type(mixer)].start(self.backend, mixer, self.length, FLOAT64)
        context = self.wiring.context(
            index, np.int32(0), np.int32(self.length), angles, self.states
        )
        x, state = layer.apply(self.backend, config, parameters, x, state, context)
        self.states.append(state)
        return x

    def leave(self, x: Array) -> Array:
        parameters = decoder.load_exit(self.model, self.loader)
        self.loader.check()
        return decoder.leave(self.backend, ExitConfig.of(self.model), parameters, x)
