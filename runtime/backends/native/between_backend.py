"""JAX with native kernels for what stands between products: sequences, rows, experts, vectors."""

from typing import Any

import jax
import numpy as np

from masu.runtime.backend import Array, wide_dtype
from masu.runtime.backends.jax import JaxBackend
from masu.runtime.backends.native.activations import bounds_of, function_of
from masu.runtime.backends.native.calls import MATRIX, call, like
from masu.runtime.backends.native.vector_tables import described_table
from masu.runtime.weights import Weight
from masu.specs.blocks.dense_mlp import DenseMLPConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.blocks.plain_mlp import PlainMLPConfig

TABLE = "vector_table"
"""The only array of a D4S4 table that the kernels serve: see `vector_tables.described_table`."""

FLOAT32, INT32 = np.dtype(np.float32), np.dtype(np.int32)


class BetweenBackend(JaxBackend):
    """Every reduction is one of a kernel's, so that a row does not know of those beside it."""

    # Tables of vectors.

    def hold(self, weight: Weight, dtype: np.dtype) -> Weight:
        """A D4S4 table; the others are products' matrices."""
        held = sum(array.nbytes for array in weight.arrays.values())
        table = jax.device_put(described_table(weight), may_alias=True)
        return Weight(weight.format, {TABLE: table}, weight.shape, weight.planes, held)

    def embed(self, table: Weight, ids: Array, dtype: np.dtype) -> Array:
        if TABLE not in table.arrays:
            return super().embed(table, ids, dtype)
        out = jax.ShapeDtypeStruct((ids.shape[0], table.shape[-1]), dtype)
        return call("masu_d4s4_lookup", out, ids.astype(INT32), table.arrays[TABLE])

    def linear(self, x: Array, weight: Weight, biases: Array | None = None) -> Array:
        if TABLE not in weight.arrays:
            return super().linear(x, weight, biases)
        return _table_product(x, weight, x.dtype, *(() if biases is None else (biases,)))

    def readout(self, x: Array, weight: Weight) -> Array:
        if TABLE not in weight.arrays:
            return super().readout(x, weight)
        return _table_product(x, weight, wide_dtype(x.dtype))

    # Rows.

    def normalised(self, x: Array, config: NormalizationConfig) -> Array:
        sizes = (config.subtract_mean, False, False, False)
        return call("masu_norm", like(x), x, sizes=sizes, numbers=(config.epsilon, 0.0))

    def scaled(self, x: Array, factors: Array) -> Array:
        return call("masu_scale", like(x), x, factors)

    def unit(self, x: Array, epsilon: float) -> Array:
        return call("masu_unit", like(x), x, numbers=(epsilon,))

    def softmax(self, scores: Array, sinks: Array | None) -> Array:
        if sinks is not None:
            return super().softmax(scores, sinks)
        return call("masu_softmax", like(scores), scores)

    def argmax(self, x: Array) -> Array:
        return call("masu_argmax", jax.ShapeDtypeStruct(x.shape[:-1], INT32), x)

    def largest(self, values: Array, count: int) -> Array:
        out = jax.ShapeDtypeStruct((values.shape[0], count), INT32)
        return call("masu_largest", out, values)

    def rotate(self, x: Array, cosines: Array, sines: Array) -> Array:
        return call("masu_rotate", like(x), x, cosines, sines)

    # Along the sequence.

    def causal_conv(
        self, x: Array, history: Array, weights: Array, biases: Array | None, filled: Array
    ) -> tuple[Array, Array]:
        out = jax.ShapeDtypeStruct(x.shape, FLOAT32), like(history)
        rest = () if biases is None else (biases,)
        return tuple(call("masu_conv", out, x, history, weights, _int(filled), *rest, sizes=(0,)))

    def gated_conv(
        self, projected: Array, history: Array, weights: Array, biases: Array | None, filled: Array
    ) -> tuple[Array, Array]:
        tokens, channels = projected.shape[0], history.shape[1]
        out = jax.ShapeDtypeStruct((tokens, channels), projected.dtype), like(history)
        operands = projected, history, weights, _int(filled)
        rest = () if biases is None else (biases,)
        return tuple(call("masu_conv", out, *operands, *rest, sizes=(1,)))

    def recur(
        self,
        queries: Array,
        keys: Array,
        values: Array,
        log_decay: Array,
        beta: Array | None,
        state: Array,
    ) -> tuple[Array, Array]:
        out, rest = (like(values), like(state)), (() if beta is None else (beta,))
        operands = state, queries, keys, values, log_decay
        # Where the state is given up, the next one is written over it.
        return tuple(call("masu_recur", out, *operands, *rest, aliases={0: 1}))

    # Experts.

    def experts(
        self,
        x: Array,
        up: Weight,
        up_biases: Array | None,
        down: Weight,
        down_biases: Array | None,
        config: PlainMLPConfig,
        chosen: Array,
        weights: Array,
    ) -> Array:
        if MATRIX not in up.arrays or MATRIX not in down.arrays:
            return super().experts(x, up, up_biases, down, down_biases, config, chosen, weights)
        vectors = [each for each in (up_biases, down_biases) if each is not None]
        sizes, numbers = _between_projections(config)
        return call(
            "masu_experts",
            like(x),
            x,
            up.arrays[MATRIX],
            down.arrays[MATRIX],
            chosen.astype(INT32),
            weights,
            *vectors,
            sizes=(
                *(*sizes, up_biases is not None, down_biases is not None),
                self.activations == "int8",
            ),
            numbers=numbers,
        )


def _int(number: Any) -> Array:
    """An int32 operand, whatever kind of number it was."""
    return jax.numpy.asarray(number, INT32)


def _table_product(x: Array, weight: Weight, dtype: np.dtype, *biases: Array) -> Array:
    out = jax.ShapeDtypeStruct((*x.shape[:-1], weight.shape[0]), dtype)
    return call("masu_d4s4_product", out, x, weight.arrays[TABLE], *biases)


def _between_projections(config: PlainMLPConfig) -> tuple[tuple[int, int], tuple[float, ...]]:
    """Whether it is gated and which function, and its numbers: `Activation` of cpp/between.h."""
    number, parameter = function_of(config.activation)
    if not isinstance(config, DenseMLPConfig):
        return (0, number), (parameter, *bounds_of(None, None))
    return (1, number), (parameter, *bounds_of(config.up_clipping, config.gate_clipping))
