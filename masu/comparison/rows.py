"""The values of a tensor in chunks of rows, decoded, in little memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from masu.specs.formats import WeightFormat
from masu.specs.package import Package
from masu.specs.row_parts import row_axis
from masu.specs.tensors import ArraySpec, Matrix, Shape

BLOCK = 128
"""Chunks begin at multiples of it: the largest block of a Hadamard transform along the rows, and
a multiple of what packs into a byte and of what pads a plane."""
CHUNK_VALUES = 1 << 20


@dataclass(frozen=True)
class MatrixRows:
    """One matrix of a package; with leading axes (experts) one slice after the other."""

    package: Package
    name: str
    matrix: Matrix

    @property
    def format(self) -> WeightFormat:
        return self.package.formats[self.name]

    def chunks(self) -> Iterator[np.ndarray]:
        """float32 `[..., rows, columns]`: the same chunks for all formats of the same shape."""
        *lead, rows, columns = self.matrix.shape
        if lead:
            yield from self._slices()
            return
        step = max(CHUNK_VALUES // columns // BLOCK, 1) * BLOCK
        whole: dict[str, np.ndarray] = {}
        for start in range(0, rows, step):
            yield self._decoded(start, min(start + step, rows), whole)

    def _slices(self) -> Iterator[np.ndarray]:
        """Along the first axis, which every array of such a matrix has too."""
        shape = (1, *self.matrix.shape[1:])
        for index in range(self.matrix.shape[0]):
            arrays = {
                suffix: self.package.container.read(self._stored(suffix), index, index + 1)
                for suffix in self._arrays(self.matrix.shape)
            }
            yield self._decode(arrays, shape)

    def _decoded(self, start: int, stop: int, whole: dict[str, np.ndarray]) -> np.ndarray:
        """Rows `start..stop`; arrays that cannot be read by rows are kept in `whole`."""
        shape = (stop - start, self.matrix.shape[-1])
        own, before = self._arrays(shape), self._arrays((start, shape[1]))
        arrays: dict[str, np.ndarray] = {}
        for suffix, full in self._arrays(self.matrix.shape).items():
            axis = self._row_axis(suffix, full)
            first = 0 if axis is None else before[suffix].shape[axis] if start else 0
            if axis == 0 and not self._is_split:
                last = first + own[suffix].shape[0]
                arrays[suffix] = self.package.container.read(self._stored(suffix), first, last)
                continue
            if suffix not in whole:
                whole[suffix] = self.package.read(f"{self.name}.{suffix}")
            count = None if axis is None else own[suffix].shape[axis]
            arrays[suffix] = _cut(whole[suffix], axis, first, count)
        return self._decode(arrays, shape)

    def _row_axis(self, suffix: str, full: ArraySpec) -> int | None:
        rows, columns = self.matrix.shape
        return row_axis(full, self._arrays((rows + BLOCK, columns))[suffix])

    def _arrays(self, shape: Shape) -> Mapping[str, ArraySpec]:
        return self.format.arrays(shape, self.package.dtype, self.package.planes)

    def _decode(self, arrays: Mapping[str, np.ndarray], shape: Shape) -> np.ndarray:
        return self.format.decode(arrays, shape, self.package.planes, np.float32)

    def _stored(self, suffix: str) -> str:
        return self.package.dialect.stored_name(f"{self.name}.{suffix}")

    @property
    def _is_split(self) -> bool:
        return self.name in self.package.dialect.row_parts(self.package.config)


def _cut(array: np.ndarray, axis: int | None, first: int, count: int | None) -> np.ndarray:
    if axis is None or count is None:
        return array
    place: list[slice] = [slice(None)] * array.ndim
    place[axis] = slice(first, first + count)
    return array[tuple(place)]
