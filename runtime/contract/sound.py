"""A plain backend in float32 that passes every gate, so that a fault can be planted in it alone."""

import math
from typing import Any

import numpy as np

from masu.runtime.backend import Array
from masu.runtime.backends.numpy import NumpyBackend

ROWS = 64
"""Rows of a product at once: what bounds its memory."""

BLOCK = 256
"""Terms that are added before they go to the running sum."""


class SoundBackend(NumpyBackend):
    """Every sum is over the last axis, block by block: no row knows of another one.

    `whole_sum` is the only place where anything is added up, and `peak` where maxima are taken.
    """

    def __init__(self) -> None:
        super().__init__()
        self.threads = 1

    def set_threads(self, count: int) -> None:
        self.threads = count

    def whole_sum(self, terms: Array) -> Array:
        """Over the last axis, which is kept."""
        blocks = range(0, max(terms.shape[-1], 1), BLOCK)
        parts = [terms[..., at : at + BLOCK].sum(-1, keepdims=True) for at in blocks]
        return self.in_order(parts)

    def in_order(self, parts: list[Array]) -> Array:
        total, *rest = parts
        for part in rest:
            total = total + part
        return total

    def peak(self, scores: Array) -> Array:
        return np.max(scores, axis=-1, keepdims=True)

    def product(self, left: Array, right: Array) -> Array:
        if left.ndim > 2 or right.ndim > 2 or not len(left):
            return super().product(left, right)
        right = np.ascontiguousarray(right.T)
        some = [left[at : at + ROWS, None] for at in range(0, len(left), ROWS)]
        return np.concatenate([self.whole_sum(rows * right)[..., 0] for rows in some])

    def norm(self, x: Array, config: Any, scales: Array | None, biases: Array | None) -> Array:
        wide, width = self.wide(x), np.float32(x.shape[-1])
        if config.subtract_mean:
            wide = wide - self.whole_sum(wide) / width
        variance = self.whole_sum(wide * wide) / width
        out = wide / np.sqrt(variance + np.float32(config.epsilon))
        if scales is not None:
            shifted: Array = scales + np.float32(config.scale_offset or 0.0)
            if config.upcast_mode == "only_normalization":
                out, shifted = self.wide(out.astype(x.dtype)), self.wide(shifted.astype(x.dtype))
            out = out * shifted
        if biases is not None:
            out = self.wide(out.astype(x.dtype)) + biases
        return out.astype(x.dtype)

    def attention(
        self, queries: Array, keys: Array, values: Array, *, position: Array, length: Array,
        scale: float, is_causal: bool, window: int | None, soft_cap: float | None,
        sinks: Array | None,
    ) -> Array:  # fmt: skip
        """Head by head; a query's keys are those it sees, from the sequence's first one on."""
        (tokens, heads, _), capacity = queries.shape, keys.shape[1]
        seen = self.visible(tokens, capacity, position, length, is_causal, window)
        kept = self.kept(self.wide(values), int(length))
        out = []
        for head in range(heads):
            group = head // (heads // len(keys))
            scores = self.product(self.wide(queries[:, head]) * scale, self.wide(keys[group]).T)
            scores = scores if soft_cap is None else self.soft_cap(scores, soft_cap)
            scores = np.where(seen, scores, -math.inf)
            sink = None if sinks is None else sinks[head]
            out.append(self.product(self.shares(scores, sink), kept[group]))
        return np.stack(out, axis=1).astype(queries.dtype)

    def kept(self, values: Array, length: int) -> Array:
        """Values with nothing in the void rows."""
        return np.where(np.arange(values.shape[1])[:, None] < length, values, np.float32(0))

    def shares(self, scores: Array, sink: Array | None) -> Array:
        peak = self.peak(scores)
        if sink is not None:
            peak = np.maximum(peak, sink)
        shares = np.exp(scores - peak)
        total = self.whole_sum(shares)
        if sink is not None:
            total = total + np.exp(sink - peak)
        return shares / total
