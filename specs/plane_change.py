"""Group planes from the order of one release to that of another, bit for bit."""

import numpy as np

from masu.specs.formats import WeightFormat
from masu.specs.formats.base import Format, Planes
from masu.specs.formats.hybrid import HybridSpec
from masu.specs.formats.integer import IntSpec
from masu.specs.formats.mlx import MLXSpec
from masu.specs.formats.packing import pack, unpack
from masu.specs.formats.planes import GroupPlane
from masu.specs.tensors import Shape

VALUES, CODES = ("scales", "biases"), "zero_points"


def changes(format_: WeightFormat, suffix: str) -> bool:
    """Whether the two orders hold the array `suffix` of a matrix in this format differently."""
    part, name = _part(format_, suffix)
    is_plane = name in (*VALUES, CODES) and isinstance(part, IntSpec | MLXSpec)
    return is_plane and part.stored_layout == "output_input"


def reordered(
    format_: WeightFormat, suffix: str, stored: np.ndarray, shape: Shape, old: Planes, new: Planes
) -> np.ndarray:
    """The array in the other order; `shape` is that of the matrix, and `changes` holds for it.

    Rows that fill up a plane are dropped and come back as zeros, which is what they always are.
    """
    part, name = _part(format_, suffix)
    if not isinstance(part, IntSpec | MLXSpec):
        raise TypeError(f"{suffix} is no group plane")
    if part.stored_layout != format_.stored_layout:  # an adapter that lies the other way
        shape = (*shape[:-2], shape[-1], shape[-2])
    before, after = (GroupPlane.of(shape, part.group_size, part.layout, p) for p in (old, new))
    if name in VALUES:
        return np.ascontiguousarray(after.write(before.read(stored)))
    codes = before.read(unpack(stored, part.bits, before.shape[-1]))
    return np.ascontiguousarray(pack(after.write(codes), part.bits))


def _part(format_: WeightFormat, suffix: str) -> tuple[Format, str]:
    """The format that an array belongs to, and its name there."""
    folder, _, name = suffix.rpartition(".")
    if isinstance(format_, HybridSpec) and folder in format_.parts:
        return format_.parts[folder], name
    return format_, suffix
