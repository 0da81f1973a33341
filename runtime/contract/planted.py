"""Kernels that are wrong in one way each: the gate that is there for it must see it, no other.

If one of them passes its gate, the gate is worth nothing, and the whole run fails.
"""

from collections.abc import Mapping
from time import sleep
from typing import Any

import ml_dtypes
import numpy as np

from masu.runtime.backend import Array
from masu.runtime.contract.sound import BLOCK, SoundBackend
from masu.runtime.weights import Weight

TILE = 16
REPETITIONS = 5


class ZerosSkipped(SoundBackend):
    """Weights of zero are left out, and with them what an infinity makes of them."""

    def readout(self, x: Array, weight: Weight) -> Array:
        matrix, wide = weight.arrays["weights"], self.wide(x)
        columns = [self.whole_sum(np.where(row == 0, np.float32(0), wide * row)) for row in matrix]
        return np.concatenate(columns, axis=-1)


class RowMaximumByFmax(SoundBackend):
    """`fmax` prefers a number to NaN: scores of NaN become the lowest there is."""

    def shares(self, scores: Array, sink: Array | None) -> Array:
        return super().shares(np.fmax(scores, np.float32(-np.inf)), sink)


class VoidRowsTimesZero(SoundBackend):
    """Void rows of the cache get a share of zero, which is nothing only if they are finite."""

    def kept(self, values: Array, length: int) -> Array:
        return values


class NanLeftOut(SoundBackend):
    """The sum of squares is over the numbers only."""

    def norm(self, x: Array, config: Any, scales: Array | None, biases: Array | None) -> Array:
        numbers = np.where(np.isnan(self.wide(x)), np.float32(0), self.wide(x)).astype(x.dtype)
        return super().norm(numbers, config, scales, biases)


class OrderByThreads(SoundBackend):
    """Each thread adds up its own columns."""

    def whole_sum(self, terms: Array) -> Array:
        parts = [terms[..., thread :: self.threads] for thread in range(self.threads)]
        return self.in_order([super(OrderByThreads, self).whole_sum(part) for part in parts])


class OrderByChance(SoundBackend):
    """Now and then the pieces of a call are done in another order."""

    def __init__(self) -> None:
        super().__init__()
        self._last, self._times = b"", 0

    def readout(self, x: Array, weight: Weight) -> Array:
        key = x.tobytes()
        self._times = self._times + 1 if key == self._last else 0
        self._last = key
        if self._times < REPETITIONS - 1:
            return super().readout(x, weight)
        backwards = Weight(
            weight.format,
            {"weights": weight.arrays["weights"][:, ::-1]},
            weight.shape,
            weight.planes,
        )
        return super().readout(x[:, ::-1], backwards)


class InPlaceRowSum(SoundBackend):
    """The norm is taken where its operand lies: right every time, but for who reads it next."""

    def norm(self, x: Array, config: Any, scales: Array | None, biases: Array | None) -> Array:
        out = super().norm(x, config, scales, biases)
        if x.size and x.flags.writeable and x.base is not None:
            before, x[..., :1] = x.copy(), 0
            x[..., 1:] = before[..., 1:]
        return out


class WritesBehind(SoundBackend):
    """A whole tile is stored where the last one is a part."""

    def norm(self, x: Array, config: Any, scales: Array | None, biases: Array | None) -> Array:
        if x.base is not None and x.flags.c_contiguous and x.flags.writeable:
            longer = np.lib.stride_tricks.as_strided(x.ravel(), (x.size + 1,), x.strides[-1:])
            longer[-1] = 0
        return super().norm(x, config, scales, biases)


class ColumnsDropped(SoundBackend):
    """What is left of a row behind its last whole tile is not added."""

    def whole_sum(self, terms: Array) -> Array:
        width = terms.shape[-1]
        return super().whole_sum(terms[..., : width - width % TILE])


class RowsDropped(SoundBackend):
    """The last tile of outputs is not written where it is a part."""

    def readout(self, x: Array, weight: Weight) -> Array:
        out = super().readout(x, weight)
        height = out.shape[-1]
        out[..., height - height % TILE :] = 0
        return out


class KeysDropped(SoundBackend):
    """Keys behind the last whole tile of the cache are not seen."""

    def attention(self, queries: Array, keys: Array, values: Array, **rest: Any) -> Array:
        capacity = keys.shape[1]
        length = min(rest["length"], capacity - capacity % TILE)
        return super().attention(queries, keys, values, **{**rest, "length": length})


class NarrowSums(SoundBackend):
    """What blocks add up to is handed on in half precision."""

    dtype: np.dtype

    def in_order(self, parts: list[Array]) -> Array:
        total, *rest = parts
        for part in rest:
            total = (total + part).astype(self.dtype).astype(part.dtype)
        return total


class SumsInFloat16(NarrowSums):
    """The same in float16."""

    dtype = np.dtype(np.float16)


class SumsInBfloat16(NarrowSums):
    """The same in bfloat16."""

    dtype = np.dtype(ml_dtypes.bfloat16)


class FixedScratch(SoundBackend):
    """There is room for so many columns and no more."""

    room = 32 * BLOCK

    def whole_sum(self, terms: Array) -> Array:
        return super().whole_sum(terms[..., : self.room])


class AtLeastOneRow(SoundBackend):
    """A loop that looks whether it is done only after its first row."""

    def linear(self, x: Array, weight: Weight, biases: Array | None = None) -> Array:
        rows = x if len(x) else np.zeros((1, x.shape[-1]), x.dtype)
        return super().linear(rows, weight, biases)

    def readout(self, x: Array, weight: Weight) -> Array:
        rows = x if len(x) else np.zeros((1, x.shape[-1]), x.dtype)
        return super().readout(rows, weight)


class SharedScratch(SoundBackend):
    """All calls put their rows in the same place before they multiply."""

    def __init__(self) -> None:
        super().__init__()
        self._scratch = np.empty(0)

    def readout(self, x: Array, weight: Weight) -> Array:
        self._scratch = x
        sleep(0.0002)
        return super().readout(self._scratch, weight)


class OtherOrderForMany(SoundBackend):
    """From four rows on the sums are taken in two halves."""

    def whole_sum(self, terms: Array) -> Array:
        if len(terms) < 4:
            return super().whole_sum(terms)
        return super().whole_sum(terms[..., ::2]) + super().whole_sum(terms[..., 1::2])


PLANTED: Mapping[str, Mapping[type[SoundBackend], tuple[str, ...]]] = {
    "non-finite": {
        ZerosSkipped: ("readout",),
        RowMaximumByFmax: ("attention",),
        VoidRowsTimesZero: ("attention",),
        NanLeftOut: ("norm",),
    },
    "repeatable": {
        OrderByThreads: ("readout",),
        OrderByChance: ("readout",),
        InPlaceRowSum: ("norm",),
        WritesBehind: ("norm",),
    },
    "tile edges": {
        ColumnsDropped: ("readout", "norm"),
        RowsDropped: ("readout",),
        KeysDropped: ("attention",),
    },
    "float32 sums": {
        SumsInFloat16: ("readout", "norm"),
        SumsInBfloat16: ("readout", "norm"),
    },
    "launch limits": {
        FixedScratch: ("readout",),
        AtLeastOneRow: ("readout",),
        SharedScratch: ("readout",),
    },
    "row-invariant": {
        OtherOrderForMany: ("readout", "norm", "attention"),
    },
}
"""By the gate that must see it: the fault, and the operations that have it."""
