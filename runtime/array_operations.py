"""What a backend computes with arrays alone, by default in plain code over its array namespace.

Sums, norms, softmax, rotations and activation functions are computed in the *wide* dtype: float32,
or float64 where the activations are float64.
"""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from masu.runtime import recurrence
from masu.specs.blocks.activation import GELU, Activation, SiLU, SquaredReLU
from masu.specs.blocks.dense_mlp import Clipping
from masu.specs.blocks.norm import NormalizationConfig

Array: TypeAlias = Any
"""An array of the backend's namespace."""


def wide_dtype(dtype: np.dtype) -> np.dtype:
    """What activations of this dtype are summed in."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


class ArrayOperations:
    """Attributes:
    xp: the array namespace (numpy, jax.numpy ...).
    """

    xp: Any

    def wide(self, x: Array) -> Array:
        return x.astype(wide_dtype(x.dtype))

    def product(self, left: Array, right: Array) -> Array:
        """The matrix product of two wide arrays, at full precision."""
        return self.xp.matmul(left, right)

    # Every element by itself.

    def activate(self, x: Array, activation: Activation) -> Array:
        """An activation function of a wide array."""
        match activation:
            case SiLU(alpha=alpha):
                return x * self.sigmoid(alpha * x)
            case GELU(approximate=True):
                inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
                return 0.5 * x * (1.0 + self.xp.tanh(inner))
            case GELU():
                return 0.5 * x * (1.0 + self.erf(x * math.sqrt(0.5)))
            case SquaredReLU():
                return self.xp.maximum(x, 0.0) ** 2
        return x

    def sigmoid(self, x: Array) -> Array:
        """Of a wide array; `exp` sees no positive number, so that nothing overflows."""
        small = self.xp.exp(-self.xp.abs(x))
        return self.xp.where(x >= 0, 1.0, small) / (1.0 + small)

    def softplus(self, x: Array) -> Array:
        """`log(1 + exp(x))` of a wide array, without overflow."""
        return self.xp.maximum(x, 0.0) + self.xp.log1p(self.xp.exp(-self.xp.abs(x)))

    def erf(self, x: Array) -> Array:
        """`2/sqrt(pi) exp(-x^2) sum 2^n x^(2n+1) / (2n+1)!!`: terms of one sign, nothing cancels.

        Beyond 6 the function is 1 in float64; at 6 the sum needs 90 terms.
        """
        x = self.xp.clip(x, -6.0, 6.0)
        term = total = x
        for n in range(1, 100):
            term = term * (x * x) * (2.0 / (2 * n + 1))
            total = total + term
        return (2 / math.sqrt(math.pi)) * self.xp.exp(-x * x) * total

    def soft_cap(self, x: Array, cap: float) -> Array:
        """`cap * tanh(x / cap)` of a wide array."""
        return self.xp.tanh(x / cap) * cap

    def clip(self, x: Array, bounds: Clipping | None) -> Array:
        """A wide array within `(lowest, highest)`; null leaves a side open."""
        lowest, highest = bounds or (None, None)
        if lowest is not None:
            x = self.xp.maximum(x, lowest)
        return x if highest is None else self.xp.minimum(x, highest)

    # Every row by itself.

    def normalised(self, x: Array, config: NormalizationConfig) -> Array:
        """Wide rows over their root mean square, or standard deviation; `norm` without scales."""
        if config.subtract_mean:
            x = x - self.xp.mean(x, axis=-1, keepdims=True)
        variance = self.xp.mean(x * x, axis=-1, keepdims=True)
        return x / self.xp.sqrt(variance + config.epsilon)

    def scaled(self, x: Array, factors: Array) -> Array:
        """Wide rows `[tokens, heads, width]` times factors `[heads]` or `[tokens, heads]`."""
        return x * factors[..., None]

    def unit(self, x: Array, epsilon: float) -> Array:
        """Wide rows at length 1, but for what `epsilon` adds to the squared length."""
        return x / self.xp.sqrt(self.xp.sum(x * x, axis=-1, keepdims=True) + epsilon)

    def argmax(self, x: Array) -> Array:
        """Where the largest of each wide row stands: the first of equals, the first NaN if any."""
        return self.xp.argmax(x, axis=-1)

    def softmax(self, scores: Array, sinks: Array | None) -> Array:
        """Over the last axis of wide scores `[heads, tokens, keys]`, with a sink for each head."""
        peak = self.xp.max(scores, axis=-1, keepdims=True)
        if sinks is not None:
            peak = self.xp.maximum(peak, sinks[:, None, None])
        shares = self.xp.exp(scores - peak)
        total = self.xp.sum(shares, axis=-1, keepdims=True)
        if sinks is not None:
            total = total + self.xp.exp(sinks[:, None, None] - peak)
        return shares / total

    def picked(self, values: Array, places: Array) -> Array:
        """Of each row `[rows, width]` the values at its places `[rows, count]`."""
        return self.xp.take_along_axis(values, places, axis=-1)

    def largest(self, values: Array, count: int) -> Array:
        """Where the largest values of each row stand, `[rows, count]`; of equals the first wins."""
        return self.xp.argsort(-values, axis=-1, stable=True)[:, :count]

    # Rotations.

    def rotations(self, frequencies: Array, factor: Array, positions: Array) -> tuple[Array, Array]:
        """Wide cosines and sines `[tokens, pairs]` of `positions` times `frequencies`."""
        angles = positions.astype(frequencies.dtype)[:, None] * frequencies
        return self.xp.cos(angles) * factor, self.xp.sin(angles) * factor

    def rotate(self, x: Array, cosines: Array, sines: Array) -> Array:
        """`[tokens, heads, width]` with the first `2 * pairs` channels turned, half by half.

        Channel i pairs with channel `i + pairs`; channels past both halves stay as they are.
        """
        pairs = cosines.shape[-1]
        wide, cosines, sines = self.wide(x), cosines[:, None], sines[:, None]
        first, second = wide[..., :pairs], wide[..., pairs : 2 * pairs]
        turned = [first * cosines - second * sines, second * cosines + first * sines]
        return self.xp.concatenate([*turned, wide[..., 2 * pairs :]], axis=-1).astype(x.dtype)

    # Along the sequence, with a state of fixed size.

    def causal_conv(
        self, x: Array, history: Array, weights: Array, biases: Array | None, filled: Array
    ) -> tuple[Array, Array]:
        """One filter for each channel: wide `[tokens, channels]`, and the history after `filled`.

        Args:
            x: `[tokens, channels]`; rows from `filled` on are padding.
            history: the `taps - 1` rows before, in the dtype of `x`.
            weights: wide `[channels, taps]`; tap 0 meets the oldest row.
            biases: wide `[channels]`.
        """
        xp, tokens, taps = self.xp, x.shape[0], weights.shape[1]
        rows = xp.concatenate([history, x], axis=0)
        wide = self.wide(rows)
        out = sum(wide[tap : tap + tokens] * weights[:, tap] for tap in range(taps))
        last = filled + xp.arange(taps - 1, dtype=np.int32)
        return (out if biases is None else out + biases), rows[last]

    def gated_conv(
        self, projected: Array, history: Array, weights: Array, biases: Array | None, filled: Array
    ) -> tuple[Array, Array]:
        """`after * causal_conv(before * x)`, the inner product rounded too; and the history.

        Args:
            projected: `[tokens, 3 * channels]`: before, after, x. The rest as `causal_conv` says.
        """
        before, after, x = self.xp.split(projected, 3, axis=-1)
        mixed, history = self.causal_conv(before * x, history, weights, biases, filled)
        return (self.wide(after) * mixed).astype(projected.dtype), history

    def scan(
        self, step: Callable[[Any, Any], tuple[Any, Array]], state: Any, inputs: Any
    ) -> tuple[Any, Array]:
        """`state, out = step(state, each)` along the first axis of all inputs; outputs stacked.

        Args:
            inputs: a named tuple of arrays, some of which may be None, as `step` gets it.
        """
        outputs = []
        for place in range(len(inputs[0])):
            each = (None if x is None else x[place] for x in inputs)
            state, out = step(state, type(inputs)(*each))
            outputs.append(out)
        return state, self.xp.stack(outputs)

    def recur(
        self,
        queries: Array,
        keys: Array,
        values: Array,
        log_decay: Array,
        beta: Array | None,
        state: Array,
    ) -> tuple[Array, Array]:
        """A state space, or with `beta` the gated delta rule: see `runtime/recurrence.py`."""
        return recurrence.recur(self, queries, keys, values, log_decay, beta, state)

    def total(self, term: Callable[[Array], Array], count: int, start: Array) -> Array:
        """`start + term(0) + term(1) + ...`, `count` terms, one after the other."""
        for place in range(count):
            start = start + term(np.int32(place))
        return start
