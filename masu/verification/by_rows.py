"""Products with tables that stay as they are stored: a few rows are decoded at a time.

In float64 a table of 262,144 tokens takes four times its bytes in the file, and sixteen times those
of 4-bit codes; no layer of the same model comes near.
"""

from math import prod

import numpy as np

from masu.runtime.backend import Array, wide_dtype
from masu.runtime.backends.numpy import NumpyBackend
from masu.runtime.weights import Weight

WHOLE = 1 << 24
"""Elements of a matrix that is decoded once, as a whole: 128 MB of float64."""

TOGETHER = 1 << 22
"""Elements that are decoded at a time otherwise."""


class RowwiseBackend(NumpyBackend):
    """The reference's backend, in the memory of its layers."""

    def hold(self, weight: Weight, dtype: np.dtype) -> Weight:
        has_rows_apart = len(weight.shape) == 2 and weight.format.rows_apart is not None
        if has_rows_apart and prod(weight.shape) > WHOLE:
            return weight
        return super().hold(weight, dtype)

    def embed(self, table: Weight, ids: Array, dtype: np.dtype) -> Array:
        if not _is_stored(table, wide_dtype(dtype)):
            return super().embed(table, ids, dtype)
        tokens, places = np.unique(ids, return_inverse=True)
        rows = [_rows(table, int(token), int(token) + 1, dtype) for token in tokens]
        return np.concatenate(rows)[places]

    def readout(self, x: Array, weight: Weight) -> Array:
        wide = self.wide(x)
        if not _is_stored(weight, wide.dtype):
            return super().readout(x, weight)
        rows, columns = weight.shape
        out, step = np.empty((*x.shape[:-1], rows), wide.dtype), max(1, TOGETHER // columns)
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            out[..., start:stop] = wide @ _rows(weight, start, stop, wide.dtype).T
        return out


def _is_stored(weight: Weight, dtype: np.dtype) -> bool:
    """Whether `hold` left it alone; what it decodes is plain and wide."""
    weights = weight.arrays.get("weights")
    is_plain = weight.format.type == "FullPrecisionSpec"
    return not (is_plain and weights is not None and weights.dtype == dtype)


def _rows(weight: Weight, start: int, stop: int, dtype: np.dtype) -> np.ndarray:
    form = weight.format
    return form.decode_rows(weight.arrays, weight.shape, start, stop, weight.planes, dtype)
