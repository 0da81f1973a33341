"""How one engine tensor is made of checkpoint tensors: read, changed, rounded, or copied."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from masu.converter.checkpoint import Checkpoint
from masu.converter.coded import CodedMaking, DecodedMaking
from masu.converter.group import Group
from masu.converter.kept import KeptMaking, is_kept
from masu.converter.table import Coded, Match
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.formats import WeightFormat
from masu.specs.formats.full_precision import FullPrecisionSpec
from masu.specs.stream import Piece, PlannedTensor
from masu.specs.tensors import ArraySpec, Entry, Matrix

FLOATS = ("F64", "F32", "F16", "BF16")


class Making(Protocol):
    """One engine tensor to be."""

    def problems(self) -> Iterator[str]:
        """Why the tensors do not make it; nothing else may be asked while there are any."""
        ...

    def planned(self) -> PlannedTensor: ...

    @property
    def rounded(self) -> tuple[str, str] | None:
        """The source's type and the stored one, where values lose precision."""
        ...

    @property
    def chunk_bytes(self) -> int:
        """What it holds in memory at a time."""
        ...


@dataclass(frozen=True)
class Codes:
    """What becomes of the codes of matrices that are quantised already.

    Attributes:
        keep: they are stored as they are; otherwise matrices are decoded.
        largest_group: groups that are larger are cut, without loss; None leaves them.
    """

    keep: bool = True
    largest_group: int | None = None


def making(
    name: str,
    matches: Sequence[Match],
    checkpoint: Checkpoint,
    entry: Entry,
    dtype: str,
    codes: Codes,
) -> Making:
    """How the matched tensors make the tensor `name`; `dtype` is the model's own."""
    if isinstance(entry, Matrix) and any(isinstance(m.row.target, Coded) for m in matches):
        coded = CodedMaking(name, matches, checkpoint, entry, dtype)
        return coded if codes.keep else DecodedMaking(coded)
    group = Group(matches, checkpoint)
    if isinstance(entry, Matrix) and codes.keep and is_kept(group):
        return KeptMaking(name, group, entry, dtype, codes.largest_group)
    return PlainMaking(name, group, entry, dtype)


@dataclass(frozen=True)
class PlainMaking:
    """Numbers as they are: a vector, or a matrix in full precision."""

    name: str
    group: Group
    entry: Entry
    dtype: str

    def problems(self) -> Iterator[str]:
        return self.group.problems(self.name, self.entry.shape, FLOATS)

    def planned(self) -> PlannedTensor:
        assembly = self.group.assembly()
        weight_format, array, spec = self._stored

        def pieces() -> Iterator[tuple[str, Piece]]:
            yield from ((array, piece) for piece in assembly.pieces(spec.dtype))

        def read(start: int, stop: int) -> np.ndarray:
            return assembly.changed(assembly.read(start, stop))

        return PlannedTensor(
            name=self.name,
            format=weight_format,
            shape=self.entry.shape,
            arrays={array: spec},
            read=read,
            pieces=pieces,
            copied=assembly.copied(spec.dtype),
        )

    @property
    def rounded(self) -> tuple[str, str] | None:
        assembly, (_, _, spec) = self.group.assembly(), self._stored
        for source in sorted(assembly.source_dtypes):
            if assembly.values is not None or not _holds(spec.dtype, source):
                return source, spec.dtype
        return None

    @property
    def decoded_from(self) -> tuple[str, ...]:
        """How those of its sources that are no plain numbers are encoded."""
        labels = {part.tensor.decoded_from for part in self.group.assembly().parts}
        return tuple(sorted(label for label in labels if label is not None))

    @property
    def chunk_bytes(self) -> int:
        _, _, spec = self._stored
        return self.group.assembly().chunk_bytes(spec.dtype)

    @property
    def _stored(self) -> tuple[WeightFormat | None, str, ArraySpec]:
        """The format, and the one array that it stores."""
        if not isinstance(self.entry, Matrix):
            return None, self.name, ArraySpec(self.entry.dtype or self.dtype, self.entry.shape)
        plain = FullPrecisionSpec(type="FullPrecisionSpec", layout=self.entry.layout)
        [(suffix, spec)] = plain.arrays(self.entry.shape, self.dtype, "group_major").items()
        return plain, f"{self.name}.{suffix}", spec


def _holds(wide: str, narrow: str) -> bool:
    """Whether every value of the second type is one of the first."""
    return np.can_cast(NUMPY_DTYPES[narrow], NUMPY_DTYPES[wide], "safe") or wide == narrow
