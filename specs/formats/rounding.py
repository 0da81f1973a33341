"""Rounding group parameters to the dtype that stores them."""

import numpy as np

from masu.specs.dtypes import NUMPY_DTYPES

SMALLEST_NORMAL = np.float32(2.0**-126)
"""Of float32 and bfloat16. Numbers below it are zero to processors that flush subnormals."""

E4M3_LARGEST = 126
"""The byte of 448, the largest finite E4M3 number; bytes 0 to 126 ascend from zero."""


def scale_above(least: np.ndarray, dtype: str) -> np.ndarray:
    """The smallest positive number of `dtype` that is not below `least`, as float32.

    Rounded upwards, because the span of a group that was divided into steps is longer than the
    same number of slightly shorter steps: its ends would be cut off. At least the smallest number
    that survives everywhere, so that nothing is ever divided by zero; at most the largest one.
    """
    target = NUMPY_DTYPES[dtype]
    largest, smallest = _ends(dtype)
    bounded = np.clip(least, smallest, largest)
    if dtype == "F32":
        return bounded
    if dtype == "BF16":  # the upper half of a float32, plus one where the lower is not zero
        return (bounded.view(np.uint32) + 0xFFFF & 0xFFFF0000).view(np.float32)
    rounded = bounded.astype(target)
    above = np.nextafter(rounded, target.type(np.inf))
    return np.where(rounded < bounded, above, rounded).astype(np.float32)


def at_most(values: np.ndarray, dtype: str) -> np.ndarray:
    """The largest number of `dtype` that is not above each value, as float32."""
    target = NUMPY_DTYPES[dtype]
    largest, _ = _ends(dtype)
    rounded = np.clip(values, -largest, largest).astype(target)
    below = np.nextafter(rounded, target.type(-np.inf))
    return np.where(rounded > values, below, rounded).astype(np.float32)


def e4m3_bytes(values: np.ndarray) -> np.ndarray:
    """The byte of the nearest E4M3 number to each value from zero up, 448 for what is above."""
    bounded = np.minimum(values, np.float32(448))
    return bounded.astype(NUMPY_DTYPES["F8_E4M3"]).view(np.uint8)


def e4m3_values(codes: np.ndarray) -> np.ndarray:
    """The float32 numbers of E4M3 bytes."""
    return codes.view(NUMPY_DTYPES["F8_E4M3"]).astype(np.float32)


def e4m3_neighbour(codes: np.ndarray, distance: int) -> np.ndarray:
    """The byte of the number so many places further up (or down), within zero and 448."""
    moved = codes.astype(np.int16) + distance
    return moved.clip(0, E4M3_LARGEST).astype(np.uint8)


def _ends(dtype: str) -> tuple[np.float32, np.float32]:
    """The largest number of a dtype, and the smallest positive one that may be a scale."""
    match dtype:
        case "F16":
            return np.float32(65504), np.float32(2.0**-24)
        case "BF16":
            return np.float32((2 - 2.0**-7) * 2.0**127), SMALLEST_NORMAL
    return np.finfo(np.float32).max, SMALLEST_NORMAL
