"""Lazy views of checkpoint tensors: another shape or order, read as little at a time as before.

A view keeps `raw` only where the bytes stay in place; otherwise they pass through memory, one
entry of the first axis (one expert) at a time.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from masu.converter.checkpoint import SourceTensor
from masu.specs.errors import TensorMismatch
from masu.specs.tensors import Shape


def squeezed(tensor: SourceTensor) -> SourceTensor:
    """Depthwise taps `[channels, 1, taps]` as `[channels, taps]`; the bytes stay."""
    if len(tensor.shape) != 3 or tensor.shape[1] != 1:
        raise mismatch(tensor, "[channels, 1, taps]")
    channels, _, taps = tensor.shape
    return replace(
        tensor,
        shape=(channels, taps),
        read=lambda start, stop: tensor.read(start, stop).reshape(-1, taps),
    )


def transposed(tensor: SourceTensor) -> SourceTensor:
    """Packed experts `[experts, in, out]` as `[experts, out, in]`."""
    if len(tensor.shape) != 3:
        raise mismatch(tensor, "[experts, in, out]")
    experts, columns, rows = tensor.shape
    return changed(tensor, (experts, rows, columns), lambda values: values.swapaxes(1, 2))


def odd_rows_first(tensor: SourceTensor) -> SourceTensor:
    """Packed experts whose rows alternate, gate, up, gate ..., with all the up rows first."""
    if len(tensor.shape) < 2 or tensor.shape[1] % 2:
        raise mismatch(tensor, "[experts, an even number of rows, ...]")
    return changed(
        tensor,
        tensor.shape,
        lambda values: np.concatenate([values[:, 1::2], values[:, ::2]], axis=1),
    )


def flattened(tensor: SourceTensor) -> SourceTensor:
    """Packed experts `[experts, rows, ...]` as `[experts * rows, ...]`; the bytes stay."""
    if len(tensor.shape) < 2:
        raise mismatch(tensor, "[experts, rows, ...]")
    experts, rows, *rest = tensor.shape

    def read(start: int, stop: int) -> np.ndarray:
        first = start // rows
        values = tensor.read(first, -(-stop // rows)).reshape(-1, *rest)
        wanted = values[start - first * rows : stop - first * rows]
        return wanted if len(wanted) == len(values) else wanted.copy()  # let go of the rest

    return replace(tensor, shape=(experts * rows, *rest), read=read)


def zeros(tensor: SourceTensor) -> SourceTensor:
    """As many zeros: for a part that the checkpoint lacks and the engine's fused tensor has."""
    return changed(tensor, tensor.shape, np.zeros_like)


def changed(
    tensor: SourceTensor, shape: Shape, change: Callable[[np.ndarray], np.ndarray]
) -> SourceTensor:
    """The tensor with `change` applied to whatever entries of the first axis are read."""
    return replace(
        tensor, shape=shape, read=lambda start, stop: change(tensor.read(start, stop)), raw=None
    )


def mismatch(tensor: SourceTensor, expected: str) -> TensorMismatch:
    return TensorMismatch(f"{tensor.name}: expected {expected}, found {list(tensor.shape)}")
