"""Attention over a cache: causal and not, with windows, caps and sinks."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from masu.runtime.backend import Backend
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
    lanes,
    numbers,
)

SCALE = 0.3


class Attention(Operation):
    """`attention`; shapes are tokens, heads, groups, width, and the place of the first token."""

    operation = "attention"
    edges = (
        (1, 1, 1, 1, 0), (1, 6, 2, 40, 16), (1, 4, 2, 16, 30), (7, 2, 1, 17, 9), (8, 4, 4, 33, 24),
        (21, 3, 1, 48, 12),
    )  # fmt: skip
    whole = (16, 2, 1, 16, 32)
    long = (1, 2, 1, 16, 4095)
    largest = (2, 2, 1, 272, 46)
    row_arrays = ("queries",)

    def __init__(
        self,
        label: str,
        *,
        is_causal: bool = True,
        window: int | None = None,
        soft_cap: float | None = None,
        has_sinks: bool = False,
    ) -> None:
        self.label, self.has_sinks = label, has_sinks
        self.options: dict[str, Any] = {
            "is_causal": is_causal, "window": window, "soft_cap": soft_cap, "scale": SCALE
        }  # fmt: skip

    def draw(self, shape: Sizes, dtype: np.dtype, *, positive: bool = False) -> Call:
        """Keys of equal scores where the shares shall add up; there is room behind the last one."""
        tokens, heads, groups, width, first = shape
        length = first + tokens
        capacity = length + (2 if length % 16 else 16)
        keys = numbers("keys", (groups, capacity, width), dtype)
        arrays = {
            "queries": numbers("queries", (tokens, heads, width), dtype),
            "keys": np.zeros_like(keys) if positive else keys,
            "values": numbers("values", (groups, capacity, width), dtype, positive),
            "position": np.array(first, np.int32),
            "length": np.array(length, np.int32),
        }
        if self.has_sinks:
            arrays["sinks"] = np.linspace(-1, 2, heads).astype(FLOAT32)
        return Call(arrays)

    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        operands = [given[name] for name in ("queries", "keys", "values")]
        places = {"position": given["position"], "length": given["length"]}
        out = backend.attention(*operands, **places, **self.options, sinks=given.get("sinks"))
        return (out,)

    def rows(self, call: Call, start: int, stop: int) -> Call:
        """Later rows are not in the cache yet, where a query sees only what is before it."""
        position = np.array(call.arrays["position"] + start, np.int32)
        length = np.array(call.arrays["position"] + stop, np.int32)
        if not self.options["is_causal"]:
            length = call.arrays["length"]
        queries = call.arrays["queries"][start:stop]
        return call.with_arrays(queries=queries, position=position, length=length)

    def bound(self, call: Call, wanted: Results, dtype: np.dtype) -> Results:
        """An error of the scores is one of the shares, relative; values are added by shares."""
        length = int(call.arrays["length"])
        queries, keys, values = (
            call.arrays[name].astype(FLOAT64) for name in ("queries", "keys", "values")
        )
        keys, values = keys[:, :length], values[:, :length]
        longest = [np.linalg.norm(each, axis=-1).max(initial=0.0) for each in (queries, keys)]
        scores = 2 * lanes(keys.shape[-1]) * SCALE * longest[0] * longest[1]
        sums = (scores + 2 * lanes(length)) * half_unit(FLOAT32) * np.abs(values).max()
        return (sums + 1.01 * half_unit(dtype) * np.abs(wanted[0]) + 1e-30,)

    def poisoned(self, call: Call) -> Iterator[Call]:
        """NaN where every query sees it, and NaN and infinities where none does."""
        length = int(call.arrays["length"])
        tokens = len(call.arrays["queries"])
        last_row = self.rows(call, tokens - 1, tokens)
        for name in ("keys", "values"):
            rows = call.arrays[name].copy()
            rows[0, length - 1, 0] = np.nan
            yield last_row.with_arrays(**{name: rows})
        for stray in (np.nan, np.inf, -np.inf):
            void = {name: call.arrays[name].copy() for name in ("keys", "values")}
            for rows in void.values():
                rows[:, length:] = stray
            yield call.with_arrays(**void)


OPERATIONS: tuple[Operation, ...] = (
    Attention("causal"),
    Attention("window, cap and sinks", window=9, soft_cap=20.0, has_sinks=True),
    Attention("both ways", is_causal=False, has_sinks=True),
    Attention("both ways, window", is_causal=False, window=12),
)
