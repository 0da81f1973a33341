"""The layers between a network's entry and its exit: loaded, compiled, and run in their order."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from masu.runtime.backend import Array, Backend, wide_dtype
from masu.runtime.blocks import decoder, layers, rope
from masu.runtime.blocks.decoder import Entered
from masu.runtime.blocks.layers import LAYERS
from masu.runtime.blocks.rope import Rotation
from masu.runtime.blocks.wiring import Wiring
from masu.runtime.loader import Loader
from masu.specs.model import NetworkConfig

LAYER_STATE = 2
"""Where a layer's `apply` takes the state among its arrays."""


class Stack:
    """Parameters and compiled steps of all layers, without any state of their own.

    Attributes:
        context_length: the most tokens that a run may hold; None without a limit.
        rewinds: whether every mixer keeps a row for each token.
        parameters: of each layer.
    """

    def __init__(
        self, config: NetworkConfig, loader: Loader, backend: Backend, dtype: np.dtype
    ) -> None:
        self._backend, self._dtype = backend, dtype
        stack = config.transformer_config
        self._width, self._configs = stack.model_dim, stack.layer_configs
        self._wiring = Wiring.of(stack)
        limits = [rope.max_sequence_length for rope in self._wiring.ropes]
        self.context_length = min(limits, default=None)
        self.rewinds = all(map(layers.keeps_rows, self._configs))
        indices = range(len(self._configs))
        self.parameters = [decoder.load_layer(config, loader, index) for index in indices]
        self._steps = [
            backend.compile(
                LAYERS[type(each)].apply, layers.body_config(each), donate=(LAYER_STATE,)
            )
            for each in self._configs
        ]

    def start(self, capacity: int) -> tuple[Any, ...]:
        """The state of every layer before the first token."""
        return tuple(
            layers.start(self._backend, each, self._width, capacity, self._dtype)
            for each in self._configs
        )

    def grow(self, states: tuple[Any, ...], capacity: int) -> tuple[Any, ...]:
        """The same states with room for more."""
        return tuple(
            layers.grow(self._backend, each, kept, capacity)
            for each, kept in zip(self._configs, states, strict=True)
        )

    def rotations(self, max_length: int) -> tuple[Rotation, ...]:
        """One for each RoPE config, for a run of at most so many tokens."""
        return tuple(
            rope.rotation(config, max_length, self._backend, wide_dtype(self._dtype))
            for config in self._wiring.ropes
        )

    def run(
        self, entered: Entered, states: tuple[Any, ...], position: Array, length: Array
    ) -> tuple[Array, tuple[Any, ...]]:
        """The stream `[tokens, width]` after the last layer, and the states, which were given up.

        Args:
            position: int32, the place of the first row in the sequence.
            length: int32, the length of the sequence with these rows; later ones are padding.
        """
        x, kept = entered.stream, list(states)
        for index in range(len(self._steps)):
            x = self._step(index, x, entered, kept, position, length)
        return x, tuple(kept)

    def streams(
        self,
        entered: Entered,
        states: tuple[Any, ...],
        position: Array,
        length: Array,
        given: Sequence[Array] | None = None,
    ) -> Iterator[Array]:
        """The stream after each layer; see `run`. The states are given up.

        Args:
            given: for each layer what it gets in place of what the layer before it made.
        """
        x, kept = entered.stream, list(states)
        for index in range(len(self._steps)):
            x = x if given is None else given[index]
            x = self._step(index, x, entered, kept, position, length)
            yield x

    def _step(
        self,
        index: int,
        x: Array,
        entered: Entered,
        states: list[Any],
        position: Array,
        length: Array,
    ) -> Array:
        """The stream after one layer, whose state is replaced."""
        context = self._wiring.context(
            index, position, length, entered.angles, states, entered.told
        )
        x, states[index] = self._steps[index](self.parameters[index], x, states[index], context)
        return x
