"""A matrix whose codes are kept: one weight format for all its parts, their codes never rounded.

Parts of a fused matrix may differ in width, group size and kind of zero. They are recoded without
loss: codes move to the next width that the format has, the parameters of a group are repeated for
the smaller groups that it falls into, and a symmetric part spells out its zero point or bias.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, prod

import numpy as np

from masu.converter.assembly import Assembly, Part
from masu.converter.checkpoint import SourceTensor
from masu.converter.group import Group
from masu.converter.quantised.codes import CodedRows, Grid
from masu.converter.quantised.module import FLOATS
from masu.converter.table import Scaled, Target
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.errors import TensorMismatch
from masu.specs.formats import IntSpec, MLXSpec
from masu.specs.formats.base import Planes
from masu.specs.formats.packing import pack, packed_length
from masu.specs.formats.planes import GroupPlane
from masu.specs.stream import Piece, PlannedTensor
from masu.specs.tensors import ArraySpec, Layout, Matrix

PLANES: Planes = "group_major"
USUAL_GROUPS = (128, 64, 32, 16)
"""What engines have kernels for."""


@dataclass(frozen=True)
class ParameterRounding:
    """What storing scales and biases in the package's type does to them.

    Attributes:
        values: how many there are; `changed` of them are not values of the stored type.
        largest: the largest error, relative to the parameter.
    """

    source: str
    stored: str
    values: int
    changed: int
    largest: float


def is_kept(group: Group) -> bool:
    """Whether every part of a matrix comes as codes, and nothing but a factor changes them."""
    targets = [found.row.target for found in group.matches]
    changes = [target.values for target in targets if isinstance(target, Target)]
    if any(change is not None and not isinstance(change, Scaled) for change in changes):
        return False
    try:
        return all(isinstance(group.seen(found).read, CodedRows) for found in group.matches)
    except TensorMismatch:
        return False  # said when the group is asked for its problems


def shared_format(
    grids: Sequence[Grid], layout: Layout, largest_group: int | None = None
) -> IntSpec | MLXSpec | None:
    """The narrowest format that holds codes of all these grids exactly; None if there is none.

    An asymmetric and an affine grid have none: `zero * scale` need not be a value of its type.
    """
    kinds, bits = {grid.kind for grid in grids}, max(grid.bits for grid in grids)
    if kinds >= {"asymmetric", "affine"}:
        return None
    size = _group_size([grid.group_size for grid in grids], largest_group)
    if "affine" in kinds:
        width = 1 if bits == 1 else 4 if bits <= 4 else 8
        return MLXSpec(type="MLXSpec", bits=width, group_size=size, layout=layout)
    return IntSpec(
        type="IntSpec",
        bits=4 if bits <= 4 else 8,
        group_size=size,
        is_symmetric=kinds == {"symmetric"},
        layout=layout,
    )


def _group_size(sizes: Sequence[int], largest: int | None) -> int:
    """The largest size that divides all, and is one of the usual ones where any of them does.

    A scale for a whole row is repeated for groups of 64, which every engine has.
    """
    size = gcd(*sizes)
    limit = min(largest or max(USUAL_GROUPS), 64 if size > max(USUAL_GROUPS) else size)
    if size in USUAL_GROUPS and size <= limit:
        return size
    return next((usual for usual in USUAL_GROUPS if usual <= limit and size % usual == 0), size)


@dataclass(frozen=True)
class KeptMaking:
    """One quantised matrix of parts that are all `CodedRows`."""

    name: str
    group: Group
    matrix: Matrix
    dtype: str
    largest_group: int | None = None

    def problems(self) -> Iterator[str]:
        found = list(self.group.problems(self.name, self.matrix.shape, FLOATS))
        yield from found
        if found:
            return
        if self.shared is None:
            parts = ", ".join(f"{name} ({label})" for name, label in self._labels.items())
            yield (
                f"format      {self.name}: no format holds the codes of {parts}; "
                "--recipe mlx-8bit would decode and quantise them together"
            )
        elif (problem := self.shared.problem(self.matrix.shape)) is not None:
            yield f"shape       {self.name}: {problem}"

    def planned(self) -> PlannedTensor:
        return PlannedTensor(
            name=self.name,
            format=self.format,
            shape=self.matrix.shape,
            arrays={f"{self.name}.{suffix}": spec for suffix, spec in self.specs.items()},
            read=self._read,
            pieces=self._pieces,
            decoded=self._decoded if self.rounding is not None else None,
        )

    @property
    def rounded(self) -> tuple[str, str] | None:
        return None if self.rounding is None else (self.rounding.source, self.rounding.stored)

    @property
    def chunk_bytes(self) -> int:
        """Codes as bytes and their packing; the parameters of one matrix, in float32 and stored."""
        planes = sum(prod(spec.shape) for name, spec in self.specs.items() if name != "weights")
        lead = self.matrix.shape[0] if len(self.matrix.shape) == 3 else 1
        codes = self._weights.chunk_bytes("U8") * (8 // self.format.bits)
        return codes + 3 * 4 * planes // lead

    @cached_property
    def shared(self) -> IntSpec | MLXSpec | None:
        return shared_format(self.grids, self.matrix.layout, self.largest_group)

    @property
    def format(self) -> IntSpec | MLXSpec:
        assert self.shared is not None, "asked for no problems first"
        return self.shared

    @property
    def grids(self) -> list[Grid]:
        return [_coded(part).grid for part in self._whole.parts]

    @cached_property
    def specs(self) -> dict[str, ArraySpec]:
        return self.format.arrays(self.matrix.shape, self.dtype, PLANES)

    @property
    def source_bytes(self) -> int:
        """Codes and parameters of the rows that are taken, as the source stores them."""
        return sum(part.num_rows * _row_bytes(_coded(part)) for part in self._whole.parts)

    @cached_property
    def rounding(self) -> ParameterRounding | None:
        """Reads the scales and biases, where their type allows that they change."""
        suffixes = [s for s in ("scales", "biases") if s in self.specs]
        sources = {_coded(part).scales.dtype for part in self._whole.parts}
        if self._scaled is None and all(_holds(self.dtype, source) for source in sources):
            return None
        count, changed, largest = 0, 0, 0.0
        for suffix in suffixes:
            exact = self._parameters(suffix).read(0, self.matrix.shape[0])
            stored = self._whole.stored(exact, self.dtype).astype(np.float32)
            error = np.abs(stored - exact)
            count, changed = count + exact.size, changed + int(np.count_nonzero(error))
            nonzero = error > 0
            if nonzero.any():
                largest = max(largest, float((error[nonzero] / np.abs(exact[nonzero])).max()))
        if not changed:
            return None
        return ParameterRounding("/".join(sorted(sources)), self.dtype, count, changed, largest)

    def _read(self, start: int, stop: int) -> np.ndarray:
        return self._whole.changed(self._whole.read(start, stop))

    def _decoded(self, start: int, stop: int) -> np.ndarray:
        """What the stored arrays of entries `start..stop` of the first axis decode to."""
        shape = (stop - start, *self.matrix.shape[1:])
        arrays = {"weights": self._weights.read(start, stop)}
        arrays |= {s: self._plane(s, start, stop) for s in self.specs if s != "weights"}
        return self.format.decode(arrays, shape, PLANES, np.float32)

    def _pieces(self) -> Iterator[tuple[str, Piece]]:
        yield from ((f"{self.name}.weights", piece) for piece in self._weights.pieces("U8"))
        entries = self.matrix.shape[0]
        step = 1 if len(self.matrix.shape) == 3 else entries
        for suffix in self.specs:
            if suffix != "weights":
                for start in range(0, entries, step):
                    yield f"{self.name}.{suffix}", self._plane(suffix, start, start + step)

    def _plane(self, suffix: str, start: int, stop: int) -> np.ndarray:
        """The stored parameters of entries `start..stop` (experts, or rows) of the first axis."""
        values = self._parameters(suffix).read(start, stop)
        shape = (stop - start, *self.matrix.shape[1:])
        plane = GroupPlane.of(shape, self.format.group_size, self.matrix.layout, PLANES)
        written = np.ascontiguousarray(plane.write(values))
        if suffix == "zero_points":
            return pack(written, self.format.bits)
        return self._whole.stored(written, self.dtype)

    @cached_property
    def _whole(self) -> Assembly:
        return self.group.assembly()

    @property
    def _scaled(self) -> Scaled | None:
        values = self._whole.values
        return values if isinstance(values, Scaled) else None

    @cached_property
    def _weights(self) -> Assembly:
        return self._of([_packed(_coded(part), self.format) for part in self._whole.parts])

    def _parameters(self, suffix: str) -> Assembly:
        """Float32 scales or biases, or U8 zero points, `[..., rows, groups]` of the format."""
        parts = [_coded(part) for part in self._whole.parts]
        if suffix == "zero_points":
            return self._of([_zero_points(rows, self.format) for rows in parts])
        make = _scales if suffix == "scales" else _biases
        return self._of([make(rows, self.format.group_size, self._scaled) for rows in parts])

    def _of(self, tensors: Sequence[SourceTensor]) -> Assembly:
        """The same rows of the same parts, of other arrays than the values."""
        pairs = zip(tensors, self._whole.parts, strict=True)
        parts = tuple(Part(tensor, part.rows) for tensor, part in pairs)
        return replace(self._whole, parts=parts, values=None)

    @property
    def _labels(self) -> dict[str, str]:
        return {part.tensor.name: part.tensor.decoded_from or "" for part in self._whole.parts}


def _coded(part: Part) -> CodedRows:
    assert isinstance(part.tensor.read, CodedRows)
    return part.tensor.read


def _packed(rows: CodedRows, format_: IntSpec | MLXSpec) -> SourceTensor:
    """U8 `[rows, bytes]`: the codes in the format's width; the source's own bytes if they are."""
    grid, codes = rows.grid, rows.codes
    if rows.packed is not None and grid.bits == format_.bits:
        return rows.packed
    symmetric = isinstance(format_, IntSpec) and format_.is_symmetric
    shift = np.uint8(2 ** (format_.bits - 1) - grid.middle if symmetric else 0)
    return replace(
        codes,
        shape=(codes.shape[0], packed_length(codes.shape[1], format_.bits)),
        read=lambda start, stop: pack(codes.read(start, stop) + shift, format_.bits),
        raw=None,
    )


def _scales(rows: CodedRows, group_size: int, scaled: Scaled | None) -> SourceTensor:
    return _floats(rows.scales, rows.grid.group_size // group_size, scaled)


def _biases(rows: CodedRows, group_size: int, scaled: Scaled | None) -> SourceTensor:
    """Of a symmetric part, `-middle * scale`: a power of two times the scale, so exact."""
    times = rows.grid.group_size // group_size
    if rows.offsets is not None:
        return _floats(rows.offsets, times, scaled)
    scales, middle = _floats(rows.scales, times, scaled), np.float32(rows.grid.middle)
    return replace(scales, read=lambda start, stop: -middle * scales.read(start, stop))


def _floats(plane: SourceTensor, times: int, scaled: Scaled | None) -> SourceTensor:
    """Float32 parameters, each `times` over."""

    def read(start: int, stop: int) -> np.ndarray:
        values = plane.read(start, stop).astype(np.float32)
        values = values if scaled is None else scaled(values)
        return np.repeat(values, times, axis=1)

    shape = (plane.shape[0], plane.shape[1] * times)
    return replace(plane, dtype="F32", shape=shape, read=read, raw=None)


def _zero_points(rows: CodedRows, format_: IntSpec | MLXSpec) -> SourceTensor:
    times = rows.grid.group_size // format_.group_size
    plane = rows.scales if rows.offsets is None else rows.offsets

    def read(start: int, stop: int) -> np.ndarray:
        if rows.offsets is None:
            shape = (stop - start, plane.shape[1] * times)
            return np.full(shape, rows.grid.middle, np.uint8)
        return np.repeat(plane.read(start, stop), times, axis=1)

    shape = (plane.shape[0], plane.shape[1] * times)
    return replace(plane, dtype="U8", shape=shape, read=read, raw=None)


def _row_bytes(rows: CodedRows) -> int:
    groups = rows.scales.shape[1]
    size = packed_length(rows.codes.shape[1], rows.grid.bits)
    size += groups * NUMPY_DTYPES[rows.scales.dtype].itemsize
    if rows.grid.kind == "affine" and rows.offsets is not None:
        size += groups * NUMPY_DTYPES[rows.offsets.dtype].itemsize
    elif rows.offsets is not None:
        size += packed_length(groups, rows.grid.bits)
    return size


def _holds(wide: str, narrow: str) -> bool:
    return wide == narrow or np.can_cast(NUMPY_DTYPES[narrow], NUMPY_DTYPES[wide], "safe")
