"""A matrix that a checkpoint holds as integer codes, with parameters for every group of columns."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from masu.converter.checkpoint import SourceTensor
from masu.converter.quantised.module import need_floats
from masu.specs.errors import TensorMismatch
from masu.specs.formats.packing import unpack

Kind = Literal["symmetric", "asymmetric", "affine"]


@dataclass(frozen=True)
class Grid:
    """What codes of a matrix mean: `scale * (code - zero)`, or `scale * code + bias` (affine).

    A symmetric grid has its zero at `2 ** (bits - 1)`; codes are unsigned in all of them.
    """

    kind: Kind
    bits: int
    group_size: int

    @property
    def middle(self) -> int:
        return 2 ** (self.bits - 1)


@dataclass(frozen=True)
class CodedRows:
    """The `read` of a tensor that is stored as codes: decodes rows, or gives the codes themselves.

    It is the tensor's reader, and not a field beside it, so that a view that changes the tensor
    (and so has a reader of its own) cannot leave codes behind that no longer belong to it.

    Attributes:
        codes: U8 `[rows, columns]`.
        scales: floats `[rows, groups]`.
        offsets: `[rows, groups]`: zero points as U8, or biases as floats; None if symmetric.
        packed: U8 `[rows, bytes]`: the codes as the engine packs them at this width, if the
            source has them so; its bytes are then kept.
    """

    grid: Grid
    codes: SourceTensor
    scales: SourceTensor
    offsets: SourceTensor | None = None
    packed: SourceTensor | None = None

    def __call__(self, start: int, stop: int) -> np.ndarray:
        """Rows `start..stop` as float32, in the arithmetic of the engine's own decoders."""
        codes = self.codes.read(start, stop)
        groups = codes.shape[1] // self.grid.group_size
        grouped = codes.astype(np.float32).reshape(len(codes), groups, self.grid.group_size)
        scales = _wide(self.scales, start, stop)
        # A scale may be anything, infinity included; that shows in the values, not as a warning.
        with np.errstate(all="ignore"):
            if self.grid.kind == "affine":
                values = grouped * scales + self._offsets(start, stop)
            else:
                values = (grouped - self._offsets(start, stop)) * scales
        return values.reshape(codes.shape)

    def _offsets(self, start: int, stop: int) -> np.ndarray:
        """`[rows, groups, 1]`, or `[1]` where all are the same."""
        if self.offsets is None:
            return np.array([self.grid.middle], np.float32)
        return _wide(self.offsets, start, stop)


def _wide(plane: SourceTensor, start: int, stop: int) -> np.ndarray:
    return plane.read(start, stop).astype(np.float32)[..., None]


def coded_matrix(name: str, rows: CodedRows, label: str) -> SourceTensor:
    """The matrix `[rows, columns]` under its Hugging Face name; `label` says how it is stored.

    Raises:
        TensorMismatch: parameters whose shape or type does not go with the codes.
    """
    height, width = rows.codes.shape
    if rows.grid.group_size <= 0 or width % rows.grid.group_size:
        raise TensorMismatch(f"{name}: {width} columns are not whole groups of {rows.grid}")
    expected = (height, width // rows.grid.group_size)
    planes = [rows.scales, *([] if rows.offsets is None else [rows.offsets])]
    for plane in planes:
        if plane.shape != expected:
            raise TensorMismatch(
                f"{plane.name}: expected parameters for {list(expected)} rows and groups, "
                f"found {list(plane.shape)}"
            )
    need_floats(rows.scales)
    return replace(rows.codes, name=name, dtype="F32", read=rows, raw=None, decoded_from=label)


def unpacked(packed: SourceTensor, bits: int, columns: int) -> SourceTensor:
    """U8 codes `[rows, columns]` of little-endian bit streams `[rows, bytes]`."""
    return replace(
        packed,
        shape=(packed.shape[0], columns),
        read=lambda start, stop: unpack(packed.read(start, stop), bits, columns),
        raw=None,
    )
