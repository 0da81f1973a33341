"""The forward pass in float64, one layer in memory at a time: what other runs are judged by."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from masu.runtime.admission import admit
from masu.runtime.backend import Array, Backend, wide_dtype
from masu.runtime.backends import load_backend
from masu.runtime.blocks import classifier, decoder, layers, rope
from masu.runtime.blocks.classifier import ClassifierExitConfig
from masu.runtime.blocks.decoder import Entered, EntryConfig, EntryParameters, ExitConfig
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
    backend = load_backend("numpy")
    loader = Loader(source, backend, FLOAT64)
    stages = Stages(config.network, loader.under(config.ROOT), backend, len(tokens))
    entered = stages.enter(tokens)
    x = entered.stream
    yield f"{config.ROOT}.embedding", x
    for index in range(len(config.network.transformer_config.layer_configs)):
        x = stages.layer(index, stages.parameters(index), x, entered)
        yield f"{config.ROOT}.transformer.layers.{index}", x
    logits = stages.leave(x)
    loader.finish()
    yield "logits", logits


class Stages:
    """One sequence through a network, a stage at a time, on a backend that compiles nothing.

    Each stage loads what it needs, runs, and returns without it; only the layers' states are kept.
    """

    def __init__(
        self,
        model: NetworkConfig,
        loader: Loader,
        backend: Backend,
        length: int,
        dtype: np.dtype = FLOAT64,
    ) -> None:
        """`loader` is that of the network's root, `dtype` that of the activations."""
        self.model, self.loader, self.length = model, loader, length
        self.backend, self.dtype = backend, dtype
        self.wiring = Wiring.of(model.transformer_config)
        self.states: list[Any] = []

    def entry(self) -> EntryParameters:
        """The parameters of the entry."""
        parameters = decoder.load_entry(self.model, self.loader)
        self.loader.check()
        return parameters

    def enter(self, tokens: np.ndarray, parameters: EntryParameters | None = None) -> Entered:
        """What the layers start from; the entry is read unless it is given."""
        parameters = self.entry() if parameters is None else parameters
        rotations = [
            rope.rotation(config, self.length, self.backend, wide_dtype(self.dtype))
            for config in self.wiring.ropes
        ]
        config = EntryConfig.of(self.model, self.dtype)
        return decoder.enter(self.backend, config, parameters, tokens, np.int32(0), rotations)

    def parameters(self, index: int) -> Any:
        """Those of one layer."""
        parameters = decoder.load_layer(self.model, self.loader, index)
        self.loader.check()
        return parameters

    def layer(
        self, index: int, parameters: Any, x: Array, entered: Entered, *, keep: bool = True
    ) -> Array:
        """The stream after the layer; without `keep` as if it had not run."""
        config = self.model.transformer_config.layer_configs[index]
        state = layers.start(
            self.backend, config, self.model.transformer_config.model_dim, self.length, self.dtype
        )
        start, length = np.int32(0), np.int32(self.length)
        context = self.wiring.context(
            index, start, length, entered.angles, self.states, entered.told
        )
        x, state = LAYERS[type(config)].apply(self.backend, config, parameters, x, state, context)
        if keep:
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
