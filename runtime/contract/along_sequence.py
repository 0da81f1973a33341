"""Operations that go along the sequence: filters with a history, recurrences with a state.

A row needs those before it, so that row invariance is: a sequence in pieces gives the same bits.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from masu.runtime.backend import Backend, wide_dtype
from masu.runtime.contract.operation import (
    FLOAT32,
    FLOAT64,
    Arrays,
    Call,
    Given,
    Operation,
    Results,
    Sizes,
    Weights,
    half_unit,
    numbers,
)


class Filter(Operation):
    """`causal_conv`; shapes are tokens, channels and taps."""

    operation = "causal_conv"
    label = ""
    edges = ((1, 1, 2), (1, 20, 4), (3, 17, 4), (7, 48, 3), (33, 70, 4))
    whole = (16, 64, 4)
    row_arrays = ("x",)

    def draw(self, shape: Sizes, dtype: np.dtype, *, positive: bool = False) -> Call:
        tokens, channels, taps = shape
        return Call(
            {
                "x": numbers("x", (tokens, channels), dtype),
                "history": numbers("history", (taps - 1, channels), dtype),
                "weights": numbers("weights", (channels, taps), FLOAT32),
                "biases": numbers("biases", (channels,), FLOAT32),
                "filled": np.array(tokens, np.int32),
            }
        )

    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        operands = [given[name] for name in ("x", "history", "weights", "biases", "filled")]
        return backend.causal_conv(*operands)

    def rows(self, call: Call, start: int, stop: int) -> Call:
        everything = np.concatenate([call.arrays["history"], call.arrays["x"]])
        before = len(call.arrays["history"])
        filled = np.array(stop - start, np.int32)
        history, x = everything[start : start + before], call.arrays["x"][start:stop]
        return call.with_arrays(x=x, history=history, filled=filled)

    def bound(self, call: Call, wanted: Results, dtype: np.dtype) -> Results:
        """A half unit for every product and sum; the history is copied."""
        taps = call.arrays["weights"].shape[1]
        x = np.concatenate([call.arrays["history"], call.arrays["x"]]).astype(FLOAT64)
        weights = np.abs(call.arrays["weights"].astype(FLOAT64))
        size = np.abs(x).max(0) * weights.sum(1) + np.abs(call.arrays["biases"])
        sums = 2 * (taps + 1) * half_unit(FLOAT32) * size
        return np.broadcast_to(sums, wanted[0].shape), np.zeros(wanted[1].shape)

    def poisoned(self, call: Call) -> Iterator[Call]:
        for value in (np.nan, np.inf, -np.inf):
            x = call.arrays["x"].copy()
            x[len(x) // 2, ::2] = value
            yield call.with_arrays(x=x)


class GatedFilter(Filter):
    """`gated_conv`, of three numbers for each channel."""

    operation = "gated_conv"

    def draw(self, shape: Sizes, dtype: np.dtype, *, positive: bool = False) -> Call:
        tokens, channels, _ = shape
        projected = numbers("projected", (tokens, 3 * channels), dtype)
        return super().draw(shape, dtype).with_arrays(x=projected)

    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        operands = [given[name] for name in ("x", "history", "weights", "biases", "filled")]
        return backend.gated_conv(*operands)

    def bound(self, call: Call, wanted: Results, dtype: np.dtype) -> Results:
        """As the filter of products that were rounded; then a product, and one more rounding."""
        before, after, x = np.split(call.arrays["x"].astype(FLOAT64), 3, axis=-1)
        inner = Call({**call.arrays, "x": before * x})
        sums = super().bound(inner, wanted, dtype)[0]
        taps = call.arrays["weights"].shape[1]
        rounded = sums / (2 * (taps + 1) * half_unit(FLOAT32)) * half_unit(dtype)
        out = np.abs(after) * (sums + rounded) + 2 * half_unit(dtype) * np.abs(wanted[0])
        history = half_unit(dtype) * np.abs(wanted[1])
        return out + 1e-30, 1.01 * history + 1e-30

    def rows(self, call: Call, start: int, stop: int) -> Call:
        """The history is of the products before the filter, in the activations' dtype."""
        before, _, x = np.split(call.arrays["x"], 3, axis=-1)
        inner = super().rows(call.with_arrays(x=before * x), start, stop)
        return inner.with_arrays(x=call.arrays["x"][start:stop])


class Recurrence(Operation):
    """`recur`; shapes are tokens, heads, groups, key width and value width."""

    operation = "recur"
    edges = ((1, 1, 1, 4, 4), (1, 4, 2, 16, 20), (5, 2, 1, 17, 9), (33, 2, 2, 32, 16))
    whole = (16, 4, 2, 16, 16)
    long = (512, 1, 1, 16, 16)
    row_arrays = ("queries", "keys", "values", "log_decay", "beta")

    def __init__(self, label: str, *, is_delta_rule: bool) -> None:
        self.label, self.is_delta_rule = label, is_delta_rule

    def draw(self, shape: Sizes, dtype: np.dtype, *, positive: bool = False) -> Call:
        """Keys of length 1, as the delta rule has them; a state that hardly decays if positive."""
        tokens, heads, groups, key_width, value_width = shape
        wide = wide_dtype(dtype)
        keys = numbers("keys", (tokens, groups, key_width), FLOAT64, positive)
        decay = np.abs(numbers("decay", (tokens, heads), FLOAT64))
        arrays = {
            "queries": numbers("queries", (tokens, groups, key_width), wide, positive),
            "keys": (keys / np.linalg.norm(keys, axis=-1, keepdims=True)).astype(wide),
            "values": numbers("values", (tokens, heads, value_width), wide, positive),
            "log_decay": (-decay * (1e-4 if positive else 0.1)).astype(wide),
            "state": numbers("state", (heads, key_width, value_width), wide, positive),
        }
        if self.is_delta_rule:
            beta = 1 / (1 + np.exp(-numbers("beta", (tokens, heads), FLOAT64)))
            arrays["beta"] = beta.astype(wide)
        return Call(arrays)

    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        names = ("queries", "keys", "values", "log_decay", "beta", "state")
        return backend.recur(*(given.get(name) for name in names))

    def rows(self, call: Call, start: int, stop: int) -> Call:
        names = [name for name in self.row_arrays if name in call.arrays]
        return call.with_arrays(**{name: call.arrays[name][start:stop] for name in names})

    def rows_alone(self, count: int) -> Sequence[int]:
        """A few: each is run with everything before it."""
        return range(0, count, 97)

    def piece(self, backend: Backend, call: Call, start: int, stop: int) -> np.ndarray:
        state = call.arrays["state"]
        if start:
            state = self.run(backend, self.rows(call, 0, start))[1]
        return self.run(backend, self.rows(call, start, stop).with_arrays(state=state))[0]

    def bound(self, call: Call, wanted: Results, dtype: np.dtype) -> Results:
        """Every token adds the half units of two products over the keys to what the state has."""
        tokens, width = len(call.arrays["keys"]), call.arrays["keys"].shape[-1]
        longest = np.linalg.norm(call.arrays["queries"].astype(FLOAT64), axis=-1).max()
        sizes = [max(np.abs(each).max(), 1.0) for each in wanted]
        units = 2 * (tokens + width + 8) * half_unit(FLOAT32)
        state = units * sizes[1]
        return (
            np.full(wanted[0].shape, max(units * sizes[0], state * longest)),
            np.full(wanted[1].shape, state),
        )

    def poisoned(self, call: Call) -> Iterator[Call]:
        """In one column of the state, which meets no other one."""
        state = call.arrays["state"].copy()
        state[0, :, 1] = np.nan
        yield call.with_arrays(state=state)


OPERATIONS: tuple[Operation, ...] = (
    Filter(),
    GatedFilter(),
    Recurrence("state space", is_delta_rule=False),
    Recurrence("delta rule", is_delta_rule=True),
)
