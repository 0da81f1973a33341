"""Operations that XLA has too, as kernels: then a step of one row needs nothing but kernels."""

from typing import Any

import jax
import numpy as np

from masu.runtime.backend import Array
from masu.runtime.backends.native.activations import (
    SIGMOID,
    SOFT_CAP,
    SOFTPLUS,
    bounds_of,
    function_of,
)
from masu.runtime.backends.native.between_backend import BetweenBackend
from masu.runtime.backends.native.calls import call, like
from masu.runtime.weights import Weight
from masu.specs.blocks.activation import Activation
from masu.specs.blocks.dense_mlp import Clipping


class StepBackend(BetweenBackend):
    """Activation functions, gates, angles, and the rows of a cache."""

    def activate(self, x: Array, activation: Activation) -> Array:
        return _function(x, *function_of(activation))

    def sigmoid(self, x: Array) -> Array:
        return _function(x, SIGMOID)

    def softplus(self, x: Array) -> Array:
        return _function(x, SOFTPLUS)

    def soft_cap(self, x: Array, cap: float) -> Array:
        return _function(x, SOFT_CAP, cap)

    def picked(self, values: Array, places: Array) -> Array:
        out = jax.ShapeDtypeStruct(places.shape, values.dtype)
        return call("masu_pick", out, values, places.astype(np.int32))

    def gated_mlp(
        self,
        x: Array,
        up: Weight,
        up_biases: Array | None,
        down: Weight,
        down_biases: Array | None,
        activation: Activation,
        up_clipping: Clipping | None,
        gate_clipping: Clipping | None,
    ) -> Array:
        function, parameter = function_of(activation)
        numbers = (parameter, *bounds_of(up_clipping, gate_clipping))
        gated = self._gated(x, up, up_biases, function, numbers)
        return self.linear(gated, down, down_biases)

    def _gated(
        self,
        x: Array,
        up: Weight,
        biases: Array | None,
        function: int,
        numbers: tuple[float, ...],
    ) -> Array:
        """Values `[..., hidden]` times a function of their gates, before the second projection."""
        both = self.linear(x, up, biases)
        out = jax.ShapeDtypeStruct((*both.shape[:-1], both.shape[-1] // 2), both.dtype)
        return call("masu_gate", out, both, sizes=(function,), numbers=numbers)

    def rotations(self, frequencies: Array, factor: Array, positions: Array) -> tuple[Array, Array]:
        out = jax.ShapeDtypeStruct((positions.shape[0], frequencies.shape[0]), np.float32)
        factor = self.xp.asarray(factor, np.float32)
        return tuple(call("masu_angles", (out, out), positions, frequencies, factor))

    def write(self, buffer: Array, rows: Array, position: Array) -> Array:
        by_token = self.xp.swapaxes(rows, 0, 1)  # as the projections made them
        position = self.xp.asarray(position, np.int32)
        return call("masu_write", like(buffer), buffer, by_token, position, aliases={0: 0})


def _function(x: Array, function: int, parameter: float = 0.0) -> Any:
    return call("masu_function", like(x), x, sizes=(function,), numbers=(parameter,))
