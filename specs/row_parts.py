"""Matrices that a dialect stores in several pieces, one below the other.

uzu 0.5 keeps the gate of an attention block in a projection of its own. In the canonical dialect
its rows are the last of the fused projection, so the pieces are joined and split by rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from masu.specs.container_layout import stored_bytes
from masu.specs.errors import EngineError, TensorError
from masu.specs.stream import FileRange, Piece, PlannedTensor
from masu.specs.tensors import ArraySpec, Shape


class RowPart(NamedTuple):
    """One stored matrix: its path in the file, and how many rows of the whole it has."""

    path: str
    rows: int

    def shape(self, whole: Shape) -> Shape:
        return (*whole[:-2], self.rows, whole[-1])


def row_axis(whole: ArraySpec, part: ArraySpec) -> int | None:
    """The axis along which a stored array has the matrix's rows; None if it has none of them."""
    differs = [axis for axis, size in enumerate(whole.shape) if part.shape[axis] != size]
    return differs[0] if differs else None


def joined(name: str, whole: ArraySpec, pieces: Sequence[np.ndarray]) -> np.ndarray:
    """The array of the whole matrix from those of its parts, in the order of the rows.

    Raises:
        TensorError: parts differ in what belongs to all rows, such as the signs of the input.
    """
    axis = row_axis(whole, ArraySpec(whole.dtype, pieces[0].shape))
    if axis is not None:
        return np.concatenate(pieces, axis)
    if any(not np.array_equal(pieces[0], piece) for piece in pieces[1:]):
        raise TensorError(f"{name}: its parts differ, so they cannot be read as one matrix")
    return pieces[0]


def split(
    tensor: PlannedTensor,
    parts: Sequence[RowPart],
    arrays_of: Callable[[Shape], Mapping[str, ArraySpec]],
) -> Iterator[PlannedTensor]:
    """One planned matrix as several, by the names in the file; the bytes stay the same.

    Args:
        arrays_of: the stored arrays, by suffix, of a matrix of some shape in the same format.

    Raises:
        EngineError: the format does not allow it, for rows are not apart in its arrays.
    """
    if tensor.format is None:
        raise EngineError(f"{tensor.name} is a vector; only matrices are split")
    first_rows = accumulate((part.rows for part in parts), initial=0)
    for part, first in zip(parts, first_rows, strict=False):
        shape = part.shape(tensor.shape)
        if problem := tensor.format.problem(shape):
            raise EngineError(f"{tensor.name} cannot be stored as {part.path}: {problem}")
        own = arrays_of(shape)
        windows = {
            f"{tensor.name}.{suffix}": _window(tensor, suffix, own[suffix], first, part)
            for suffix in own
        }
        yield replace(
            tensor,
            name=part.path,
            shape=shape,
            arrays={f"{part.path}.{suffix}": spec for suffix, spec in own.items()},
            read=lambda start, stop, first=first: tensor.read(first + start, first + stop),
            pieces=_Cut(tensor, part.path, windows),
            copied=None,
        )


class _Window(NamedTuple):
    """The bytes of a stored array that belong to one part."""

    start: int
    stop: int


def _window(
    tensor: PlannedTensor, suffix: str, own: ArraySpec, first: int, part: RowPart
) -> _Window:
    whole = tensor.arrays[f"{tensor.name}.{suffix}"]
    axis = row_axis(whole, own)
    if axis is None:
        return _Window(0, stored_bytes(whole))
    if axis > 0:
        reason = f"the rows of its {suffix} do not lie one after the other"
        raise EngineError(f"{tensor.name} cannot be stored as {part.path}: {reason}")
    row = stored_bytes(own) // part.rows
    return _Window(first * row, (first + part.rows) * row)


@dataclass(frozen=True)
class _Cut:
    """The pieces of one part, taken out of those of the whole."""

    tensor: PlannedTensor
    path: str
    windows: Mapping[str, _Window]

    def __call__(self) -> Iterator[tuple[str, Piece]]:
        done = dict.fromkeys(self.windows, 0)
        for name, piece in self.tensor.pieces():
            window, begin = self.windows[name], done[name]
            length = piece.length if isinstance(piece, FileRange) else piece.nbytes
            done[name] += length
            start, stop = max(window.start - begin, 0), min(window.stop - begin, length)
            if start < stop:
                stored = f"{self.path}{name.removeprefix(self.tensor.name)}"
                yield stored, _cut(piece, start, stop)


def _cut(piece: Piece, start: int, stop: int) -> Piece:
    if isinstance(piece, FileRange):
        return FileRange(piece.path, piece.offset + start, stop - start)
    size = piece.dtype.itemsize
    return np.ascontiguousarray(piece).reshape(-1)[start // size : stop // size]
