"""A few numbers that stand for a large array: sums with pseudo-random vectors, taken in float64.

`u W v` with dense u and v depends on every element, and on where it stands: a flipped sign of one
element `w` moves it by about `2 w`, where rounding moves it by 1e-15 of the size of W.
"""

import math
from collections.abc import Callable

import numpy as np

from masu.specs.fingerprints import Number, Print
from masu.specs.tensors import Shape
from masu.verification.noise import noise

TOLERANCE = 1e-10
"""Largest difference of a sum that is none, in sizes of the array.

Sums of 1e9 products in another order differ by 1e-14 of it; the outputs of blocks, which depend on
a CPU's exponentials as well, by 1e-12.
"""

CHUNK = 1 << 22
"""Elements that are widened to float64 at a time."""

ROWS, COLUMNS = (11, 12), (21, 22)
"""Sequences of noise: those of u, and those of v."""


def print_of(values: np.ndarray) -> Print:
    """Of an array of any shape, as a matrix of its last axis; a vector is one column."""
    matrix = values.reshape(-1, values.shape[-1] if values.ndim > 1 else 1)
    return print_of_rows(matrix.shape, lambda start, stop: matrix[start:stop])


def print_of_rows(shape: Shape, read: Callable[[int, int], np.ndarray]) -> Print:
    """Of a matrix `[rows, columns]` that is read a few rows at a time: the print of the whole."""
    rows, columns = shape
    right = np.stack([noise(0, columns, seed) for seed in COLUMNS], axis=1)
    step, found, squares = max(1, CHUNK // columns), np.zeros(2), 0.0
    for start in range(0, rows, step):
        chunk = read(start, min(start + step, rows)).astype(np.float64)
        left = np.stack([noise(start, start + len(chunk), seed) for seed in ROWS], axis=1)
        found += np.sum(left * (chunk @ right), axis=0)
        squares += float(np.sum(chunk * chunk))
    first, second = map(float, found)
    return _number(first), _number(second), _number(math.sqrt(squares))


def distance(found: Print, recorded: Print) -> float:
    """Largest difference of the two sums, in sizes of what was recorded; infinite if not finite."""
    if recorded == found:
        return 0.0
    size = recorded[2]
    if size is None or None in found or None in recorded:
        return math.inf
    pairs = zip(found, recorded, strict=True)
    worst = max(abs((a or 0.0) - (b or 0.0)) for a, b in pairs)
    return worst / size if size else math.inf


def _number(value: float) -> Number:
    return value if math.isfinite(value) else None
