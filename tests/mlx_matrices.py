"""Matrices to quantise as MLX does: 20 random and 20 adversarial ones, in numpy alone.

The random numbers are sums of uniform ones from numpy's frozen generator, so that every platform
and version makes the same bits.
"""

import numpy as np

ROWS, COLUMNS = 2, 128
DTYPES = ("F32", "F16", "BF16")
GROUP_SIZES = (32, 64, 128)
BITS = (4, 8)

_LARGEST = {"F32": 3.4e38, "F16": 65504.0, "BF16": 3.38e38}


def matrices(dtype: str, rows: int = ROWS, columns: int = COLUMNS) -> list[np.ndarray]:
    """float32 `[rows, columns]` each, of numbers that `dtype` holds."""
    found = [_bell(seed, rows, columns) * 10.0 ** (seed % 5 - 3) for seed in range(20)]
    found += adversarial(rows, columns, _LARGEST[dtype])
    return [_rounded(matrix, dtype) for matrix in found]


def adversarial(rows: int, columns: int, largest: float) -> list[np.ndarray]:
    """Degenerate groups, ties of every kind, and the ends of the range."""
    count = np.arange(rows * columns, dtype=np.float64).reshape(rows, columns)
    bell, place = _bell(99, rows, columns), count % columns
    alternating = np.where(count % 2 == 0, 1.0, -1.0)
    return [
        np.zeros((rows, columns)),
        np.full((rows, columns), 0.37),
        np.full((rows, columns), -0.37),
        np.where(place % 32 == 5, 1000.0, bell * 1e-2),
        np.where(place % 32 == 5, -1000.0, bell * 1e-2),
        alternating * 0.75,  # both ends as far from zero
        alternating * (count % 16) / 8,
        100 + bell / 64,
        -100 + bell / 64,
        bell * 1e-7,  # spans around MLX's smallest scale
        bell * 3e-8,
        np.where(place % 64 == 63, 2.0**-20, 0.0),
        bell * largest * 2.0**-4,
        alternating * largest,  # a span that float32 does not hold
        np.where(place % 32 < 16, largest, 0.0),
        (count % 31 - 15) / 2,  # halves of a step between 0 and 15
        (count % 511 - 255) / 2,
        np.where(place % 32 == 0, -0.0, np.abs(bell)),
        2.0 ** (count % 23 - 16) * alternating,
        count[::-1, ::-1] / 64 - 1,
    ]


def _bell(seed: int, rows: int, columns: int) -> np.ndarray:
    """Nearly normal numbers: sums of twelve uniform ones."""
    uniform = np.random.RandomState(seed).random_sample((12, rows, columns))
    return uniform.sum(0) - 6


def _rounded(matrix: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "F16":
        return matrix.astype(np.float16).astype(np.float32)
    narrow = matrix.astype(np.float32)
    if dtype == "F32":
        return narrow
    return (narrow.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
