"""The forward pass in float64, one layer in memory at a time: what other runs are judged by."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from masu.runtime.admission import admit
from masu.runtime.backend import Array
from masu.runtime.backends import load_backend
from masu.runtime.blocks import classifier, decoder, layers, rope
from masu.runtime.blocks.classifier import ClassifierExitConfig
from masu.runtime.blocks.decoder import Entered, EntryConfig, ExitConfig
from masu.runtime.blocks.layers import LAYERS
from masu.runtime.blocks.wiring import Wiring
from masu.runtime.loader import Loader, TensorSource
from masu.runtime.prompt import TokenIds, checked_ids
from masu.specs.blocks.classifier import ClassifierConfig
from masu.specs.model import NetworkConfig

FLOAT64 = np.dtype(np.float64)


def reference_logits(source: TensorSource, ids: TokenIds) -> np.ndarray:
    """Float64 logits of a whole sequence: `[tokens, vocab]`, of a classifier `[labels]`.

    Raises:
        RequestError, SchemaError, TensorError: as `load_network`.
    """
    *_, (_, logits) = reference_stages(source, ids)
    return logits


def reference_stages(source: TensorSource, ids: TokenIds) -> Iterator[tuple[str, np.ndarray]]:
    """The stream `[tokens, width]` as it grows, by the path of what made it, then the logits.

    `("decoder.embedding", ...)`, `("decoder.transformer.layers.0", ...)`, ..., `("logits", ...)`.
    The parameters of a stage are dropped before those of the next are read.
    """
    config = admit(source.config)
    tokens = checked_ids(ids, config.network.vocab_size)
    loader = Loader(source, load_backend("numpy"), FLOAT64)
    stages = _Stages(config.network, loader.under(config.ROOT), len(tokens))
    entered = stages.enter(tokens)
    x = entered.stream
    yield f"{config.ROOT}.embedding", x
    for index in range(len(config.network.transformer_config.layer_configs)):
        x = stages.layer(index, x, entered)
        yield f"{config.ROOT}.transformer.layers.{index}", x
    logits = stages.leave(x)
    loader.finish()
    yield "logits", logits


class _Stages:
    """Each stage loads what it needs, runs it, and returns without it; only states are kept."""

    def __init__(self, model: NetworkConfig, loader: Loader, length: int) -> None:
        self.model, self.loader, self.length = model, loader, length
        self.backend = load_backend("numpy")
        self.wiring = Wiring.of(model.transformer_config)
        self.states: list[Any] = []

    def enter(self, tokens: np.ndarray) -> Entered:
        parameters = decoder.load_entry(self.model, self.loader)
        self.loader.check()
        rotations = [
            rope.rotation(config, self.length, self.backend, FLOAT64)
            for config in self.wiring.ropes
        ]
        config = EntryConfig.of(self.model, FLOAT64)
        return decoder.enter(self.backend, config, parameters, tokens, np.int32(0), rotations)

    def layer(self, index: int, x: Array, entered: Entered) -> Array:
        config = self.model.transformer_config.layer_configs[index]
        parameters = decoder.load_layer(self.model, self.loader, index)
        self.loader.check()
        state = layers.start(
            self.backend, config, self.model.transformer_config.model_dim, self.length, FLOAT64
        )
        start, length = np.int32(0), np.int32(self.length)
        context = self.wiring.context(
            index, start, length, entered.angles, self.states, entered.told
        )
        x, state = LAYERS[type(config)].apply(self.backend, config, parameters, x, state, context)
        self.states.append(state)
        return x

    def leave(self, x: Array) -> Array:
        if isinstance(self.model, ClassifierConfig):
            return self._pooled(self.model, x)
        parameters = decoder.load_exit(self.model, self.loader)
        self.loader.check()
        return decoder.leave(self.backend, ExitConfig.of(self.model), parameters, x)

    def _pooled(self, model: ClassifierConfig, x: Array) -> Array:
        parameters = classifier.load_exit(model, self.loader)
        self.loader.check()
        config = ClassifierExitConfig.of(model)
        return classifier.leave(self.backend, config, parameters, x, np.int32(self.length))
