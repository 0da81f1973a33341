"""The block-diagonal Hadamard transform: Sylvester's matrix in natural order, normalised.

Entry `(i, j)` of a block is `(-1) ** popcount(i & j) / sqrt(block)`, so that the transform is
symmetric and its own inverse.
"""

import math
from typing import Any

import numpy as np


def hadamard_problem(channels: int, block: int) -> str | None:
    """Why an axis of so many channels does not fall into whole blocks."""
    if channels % block == 0:
        return None
    return f"{channels} channels are not a multiple of the Hadamard block {block}"


def hadamard(values: Any, block: int, axis: int = -1, xp: Any = np) -> Any:
    """Every run of `block` (a power of two) elements of an axis, transformed, in their dtype."""
    mixed = xp.swapaxes(values, axis, -1)
    shape = mixed.shape
    distance = 1
    while distance < block:
        pairs = mixed.reshape(*shape[:-1], -1, 2, distance)
        low, high = xp.split(pairs, 2, axis=-2)
        mixed = xp.concatenate([low + high, low - high], axis=-2)
        distance *= 2
    # Not a division: XLA turns that into a product with a reciprocal of its own rounding.
    mixed = mixed.reshape(shape) * xp.asarray(1 / math.sqrt(block), values.dtype)
    return xp.swapaxes(mixed, axis, -1)
