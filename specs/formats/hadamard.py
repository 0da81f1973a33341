"""The block-diagonal Hadamard transform: Sylvester's matrix in natural order, normalised.

Entry `(i, j)` of a block is `(-1) ** popcount(i & j) / sqrt(block)`, so that the transform is
symmetric and its own inverse.
"""

import math
from typing import Any

import numpy as np

CHUNK = 1 << 16
"""Elements that are transformed at a time along rows, so that they stay in a core's own cache."""


def hadamard_problem(channels: int, block: int) -> str | None:
    """Why an axis of so many channels does not fall into whole blocks."""
    if channels % block == 0:
        return None
    return f"{channels} channels are not a multiple of the Hadamard block {block}"


def hadamard(values: Any, block: int, axis: int = -1, xp: Any = np) -> Any:
    """Every run of `block` (a power of two) elements of an axis, transformed, in their dtype."""
    if xp is np:
        return _in_numpy(values, block, axis)
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


def _in_numpy(values: np.ndarray, block: int, axis: int) -> np.ndarray:
    """The same sums and roundings, with long loops: what is mixed stands along the first axis."""
    matrices = values.reshape(-1, *values.shape[-2:]) if values.ndim > 1 else values[None, None]
    mixed = np.empty_like(matrices)
    along = axis % values.ndim - values.ndim
    for matrix, target in zip(matrices, mixed, strict=True):
        if along == -2:
            _mix(matrix.reshape(-1, block, matrix.shape[-1]), target)
            continue
        size = max(CHUNK // matrix.shape[-1], 1)
        for start in range(0, len(matrix), size):
            rows = matrix[start : start + size]
            target[start : start + size] = _mix_columns(rows, block)
    return mixed.reshape(values.shape)


def _mix_columns(rows: np.ndarray, block: int) -> np.ndarray:
    turned = np.ascontiguousarray(rows.reshape(-1, block).T)
    mixed = np.empty_like(turned)
    _mix(turned[None], mixed)
    return mixed.T.reshape(rows.shape)


def _mix(runs: np.ndarray, target: np.ndarray) -> None:
    """The transform along the middle axis of `[runs, block, width]`, into `target`."""
    block = runs.shape[1]
    factor = np.asarray(1 / math.sqrt(block), runs.dtype)
    for run, out in zip(runs, target.reshape(runs.shape), strict=True):
        distance = 1
        while distance < block:
            low, high = run.reshape(-1, 2, distance, run.shape[-1]).swapaxes(0, 1)
            run = np.stack([low + high, low - high], axis=1)
            distance *= 2
        np.multiply(run.reshape(out.shape), factor, out=out)
