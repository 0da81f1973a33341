"""How far apart two streams of values are, in one pass."""

import math
from collections.abc import Iterable

import numpy as np

from masu.comparison.entries import Distance


def distance(a: Iterable[np.ndarray], b: Iterable[np.ndarray]) -> Distance:
    """Over chunks of equal shape; the sums are kept in float64, the differences as well."""
    error = size = largest = 0.0
    unlike = 0
    for one, other in zip(a, b, strict=True):
        for left, right in zip(_rows(one), _rows(other), strict=True):
            finite = np.isfinite(left) & np.isfinite(right)
            if not finite.all():
                same = (left == right) | (np.isnan(left) & np.isnan(right))
                unlike += int(np.count_nonzero(~finite & ~same))
                left, right = np.where(finite, left, 0), np.where(finite, right, 0)
            gap = left - right
            error += float(np.dot(gap, gap))
            size += float(np.dot(left, left))
            largest = max(largest, float(np.abs(gap).max(initial=0)))
    relative = 0.0 if error == 0 else None if size == 0 else math.sqrt(error / size)
    return Distance(relative, largest, unlike)


def _rows(chunk: np.ndarray) -> Iterable[np.ndarray]:
    """The values in float64, as many at a time as make little of it."""
    flat = chunk.reshape(-1)
    step = 1 << 16
    for start in range(0, flat.size, step):
        yield flat[start : start + step].astype(np.float64)
