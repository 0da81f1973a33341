"""One engine tensor out of pieces of checkpoint tensors: which rows, in which order."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from masu.converter.checkpoint import SourceTensor
from masu.converter.table import Rows
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.errors import TensorMismatch
from masu.specs.stream import FileRange, Piece
from masu.specs.tensors import Shape

CHUNK_VALUES = 4 * 1024 * 1024
"""Values converted at a time: bounds the memory that any tensor needs."""


@dataclass(frozen=True)
class Part:
    """Row ranges of one source tensor, in the wanted order."""

    tensor: SourceTensor
    rows: Rows

    @property
    def num_rows(self) -> int:
        return sum(stop - start for start, stop in self.rows)


@dataclass(frozen=True)
class Assembly:
    """Parts laid one after the other along the first axis, or stacked on a new one.

    Attributes:
        parts: in file order of the result.
        stacked: number of equal groups that form a new leading axis; None for plain rows.
        values: element-wise change in float32, applied before the one rounding.
    """

    parts: tuple[Part, ...]
    stacked: int | None = None
    values: Callable[[np.ndarray], np.ndarray] | None = None

    @property
    def num_rows(self) -> int:
        return sum(part.num_rows for part in self.parts)

    @property
    def shape(self) -> Shape:
        rest = self.parts[0].tensor.shape[1:]
        if self.stacked is None:
            return (self.num_rows, *rest)
        return (self.stacked, self.num_rows // self.stacked, *rest)

    @property
    def source_dtypes(self) -> set[str]:
        return {part.tensor.dtype for part in self.parts}

    def read(self, start: int, stop: int) -> np.ndarray:
        """Entries `start..stop` of the result's first axis, before any change of values."""
        group = 1 if self.stacked is None else self.num_rows // self.stacked
        flat = self._read_rows(start * group, stop * group)
        return flat.reshape(stop - start, *self.shape[1:])

    def pieces(self, dtype: str) -> Iterator[Piece]:
        """The stored bytes: stretches of the source where nothing changes, arrays otherwise."""
        if self.values is None and all(_plain(part, dtype) for part in self.parts):
            for part in self.parts:
                yield from _file_ranges(part)
            return
        for start in range(0, self.num_rows, self._step):
            rows = self._read_rows(start, min(start + self._step, self.num_rows))
            yield self.stored(self.changed(rows), dtype)

    def chunk_bytes(self, dtype: str) -> int:
        """Memory that `pieces` holds at a time: values as read, changed, and as stored."""
        if self.values is None and all(_plain(part, dtype) for part in self.parts):
            return 0
        values = min(self._step, self.num_rows) * self._row_values
        read = max(NUMPY_DTYPES[source].itemsize for source in self.source_dtypes)
        return values * (2 * read + 4 + NUMPY_DTYPES[dtype].itemsize)

    @property
    def _row_values(self) -> int:
        return max(1, prod(self.parts[0].tensor.shape[1:]))

    @property
    def _step(self) -> int:
        """Rows converted at a time; of experts all, for a view may have to read them anyway."""
        group = 1 if self.stacked is None else self.num_rows // self.stacked
        return group * max(1, CHUNK_VALUES // (group * self._row_values))

    def copied(self, dtype: str) -> FileRange | None:
        """The one source tensor that this is a plain and whole copy of, if it is."""
        first, *others = self.parts
        if others or self.values is not None or not _plain(first, dtype):
            return None
        whole = first.tensor.raw
        return whole if list(_file_ranges(first)) == [whole] else None

    def changed(self, values: np.ndarray) -> np.ndarray:
        """The values as they should be stored, before rounding to the stored type."""
        return values if self.values is None else self.values(values.astype(np.float32))

    def stored(self, values: np.ndarray, dtype: str) -> np.ndarray:
        """The one rounding. Raises TensorMismatch where a value is too large for the type."""
        return stored_values(values, dtype, ", ".join(part.tensor.name for part in self.parts[:4]))

    def _read_rows(self, start: int, stop: int) -> np.ndarray:
        found = [tensor.read(a, b) for tensor, a, b in self._spans(start, stop)]
        if len(self.source_dtypes) > 1:  # parts of several types meet in the widest
            found = [values.astype(np.float32) for values in found]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _spans(self, start: int, stop: int) -> Iterator[tuple[SourceTensor, int, int]]:
        """The source rows behind rows `start..stop` of the result."""
        position = 0
        for part in self.parts:
            for first, last in part.rows:
                low = max(start - position, 0)
                high = min(stop - position, last - first)
                if low < high:
                    yield part.tensor, first + low, first + high
                position += last - first


def stored_values(values: np.ndarray, dtype: str, name: str) -> np.ndarray:
    """Values rounded to a stored type. Raises TensorMismatch where one is too large for it."""
    with np.errstate(over="ignore"):
        stored = values.astype(NUMPY_DTYPES[dtype])
    if np.isinf(stored).sum() > np.isinf(values).sum():
        largest = float(np.nanmax(np.abs(values[np.isfinite(values)])))
        raise TensorMismatch(
            f"{name}: expected values that fit {dtype}, found {largest:.6g}",
            hint="--dtype float32 holds them",
        )
    return stored


def _plain(part: Part, dtype: str) -> bool:
    return part.tensor.raw is not None and part.tensor.dtype == dtype


def _file_ranges(part: Part) -> Iterator[FileRange]:
    raw = part.tensor.raw
    assert raw is not None
    row_bytes = prod(part.tensor.shape[1:]) * NUMPY_DTYPES[part.tensor.dtype].itemsize
    for start, stop in part.rows:
        yield FileRange(raw.path, raw.offset + start * row_bytes, (stop - start) * row_bytes)
