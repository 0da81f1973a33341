"""Matrices that the checkpoint holds quantised already: codes and parameters keep their bytes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from masu.converter.assembly import stored_values
from masu.converter.checkpoint import Checkpoint
from masu.converter.group import Group
from masu.converter.table import Coded, Match
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.formats import FullPrecisionSpec, MicrofloatSpec, WeightFormat
from masu.specs.formats.base import Planes
from masu.specs.stream import Piece, PlannedTensor
from masu.specs.tensors import ArraySpec, Matrix

PLANES: Planes = "group_major"


@dataclass(frozen=True)
class CodedMaking:
    """One quantised matrix: for each array of its format, the tensors that make it."""

    name: str
    matches: Sequence[Match]
    checkpoint: Checkpoint
    matrix: Matrix
    dtype: str

    def problems(self) -> Iterator[str]:
        sources = ", ".join(sorted(found.source for found in self.matches))
        if not self._is_one:
            yield f"ambiguous   {self.name}: made by {sources}"
            return
        if (problem := self._format.problem(self.matrix.shape)) is not None:
            yield f"shape       {self.name}: {problem}, from {sources}"
            return
        for suffix, spec in self._specs.items():
            array = f"{self.name}.{suffix}"
            if suffix in self._groups:
                yield from self._groups[suffix].problems(array, spec.shape, (spec.dtype,))
            elif _constant(self._format, suffix) is None:
                yield f"missing     {array}, beside {sources}"

    def planned(self) -> PlannedTensor:
        return PlannedTensor(
            name=self.name,
            format=self._format,
            shape=self.matrix.shape,
            arrays={f"{self.name}.{suffix}": spec for suffix, spec in self._specs.items()},
            read=self._read,
            pieces=self._pieces,
        )

    @property
    def rounded(self) -> None:
        """Nothing: every array is stored as it is."""

    @property
    def chunk_bytes(self) -> int:
        return max(
            group.assembly().chunk_bytes(self._specs[suffix].dtype)
            for suffix, group in self._groups.items()
        )

    def _read(self, start: int, stop: int) -> np.ndarray:
        arrays = {
            suffix: self._groups[suffix].assembly().read(start, stop)
            if suffix in self._groups
            else self._filled(suffix)[start:stop]
            for suffix in self._specs
        }
        shape = (stop - start, *self.matrix.shape[1:])
        return self._format.decode(arrays, shape, PLANES, np.float32)

    def _pieces(self) -> Iterator[tuple[str, Piece]]:
        for suffix, spec in self._specs.items():
            array = f"{self.name}.{suffix}"
            if suffix in self._groups:
                pieces = self._groups[suffix].assembly().pieces(spec.dtype)
                yield from ((array, piece) for piece in pieces)
            else:
                yield array, self._filled(suffix)

    def _filled(self, suffix: str) -> np.ndarray:
        spec = self._specs[suffix]
        return np.full(spec.shape, _constant(self._format, suffix), NUMPY_DTYPES[spec.dtype])

    @property
    def _is_one(self) -> bool:
        """Whether all tensors are arrays of one format."""
        targets = [found.row.target for found in self.matches]
        return all(isinstance(t, Coded) and t.format == self._format for t in targets)

    @cached_property
    def _format(self) -> WeightFormat:
        targets = [found.row.target for found in self.matches]
        return next(target.format for target in targets if isinstance(target, Coded))

    @cached_property
    def _specs(self) -> Mapping[str, ArraySpec]:
        return self._format.arrays(self.matrix.shape, self.dtype, PLANES)

    @cached_property
    def _groups(self) -> Mapping[str, Group]:
        """The tensors of each array, by its suffix."""
        by_array: dict[str, list[Match]] = {}
        for found in self.matches:
            assert isinstance(found.row.target, Coded)
            by_array.setdefault(found.row.target.array, []).append(found)
        return {suffix: Group(found, self.checkpoint) for suffix, found in by_array.items()}


@dataclass(frozen=True)
class DecodedMaking:
    """The same matrix as plain numbers, one entry of its first axis (an expert) at a time."""

    coded: CodedMaking

    def problems(self) -> Iterator[str]:
        return self.coded.problems()

    def planned(self) -> PlannedTensor:
        coded, spec = self.coded, ArraySpec(self.coded.dtype, self.coded.matrix.shape)
        array = f"{coded.name}.weights"

        def pieces() -> Iterator[tuple[str, Piece]]:
            for entry in range(coded.matrix.shape[0]):
                yield array, stored_values(planned.read(entry, entry + 1), coded.dtype, coded.name)

        planned = replace(
            coded.planned(),
            format=FullPrecisionSpec(type="FullPrecisionSpec", layout=coded.matrix.layout),
            arrays={array: spec},
            pieces=pieces,
        )
        return planned

    @property
    def rounded(self) -> tuple[str, str] | None:
        """4-bit floats times powers of two are values of all types with their range."""
        return ("F32", "F16") if self.coded.dtype == "F16" else None

    @property
    def chunk_bytes(self) -> int:
        return 12 * prod(self.coded.matrix.shape[1:])


def _constant(weight_format: WeightFormat, suffix: str) -> float | None:
    """What an array holds that the checkpoint has none of: MXFP4 has no scale for the whole."""
    is_mxfp4 = isinstance(weight_format, MicrofloatSpec) and weight_format.scale_mode == "mxfp4"
    return 1.0 if is_mxfp4 and suffix == "global_scale" else None
