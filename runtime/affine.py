"""Stored codes as MLX multiplies with them: `code * scale + bias` for each group of columns.

Nothing is quantised anew: the bit streams are the same, and only the planes are turned.
"""

from typing import NamedTuple

import numpy as np

from masu.runtime.weights import Weight
from masu.specs.formats.integer import IntSpec
from masu.specs.formats.mlx import MLXSpec
from masu.specs.formats.packing import unpack
from masu.specs.formats.planes import GroupPlane

SERVED_BITS = (4, 8)
"""Of those that packages have: MLX has no Metal kernel for 1."""

SERVED_GROUPS = (32, 64, 128)


class Affine(NamedTuple):
    """`words` uint32 `[..., rows, columns * bits / 32]`; scales and biases `[..., rows, groups]`.

    Scales and biases have one dtype, and say exactly what the file says.
    """

    words: np.ndarray
    scales: np.ndarray
    biases: np.ndarray


def affine(weight: Weight, dtypes: tuple[np.dtype, ...]) -> Affine | None:
    """A stored matrix (of numpy arrays) with its planes in the first of the dtypes that holds them.

    None where MLX has no product for the format, the bits or the group size, or where no dtype
    holds the planes: `(code - zero_point) * scale` has the bias `-zero_point * scale`, which has
    up to 8 more significant bits than the scale.
    """
    spec = weight.format
    if not isinstance(spec, IntSpec | MLXSpec):
        return None
    if spec.bits not in SERVED_BITS or spec.group_size not in SERVED_GROUPS:
        return None
    planes = _planes(weight, spec)
    for dtype in dtypes:
        rounded = [plane.astype(dtype) for plane in planes]
        pairs = zip(planes, rounded, strict=True)
        if all(np.array_equal(exact, stored.astype(np.float64)) for exact, stored in pairs):
            words = np.ascontiguousarray(weight.arrays["weights"]).view(np.uint32)
            return Affine(words, *rounded)
    return None


def _planes(weight: Weight, spec: IntSpec | MLXSpec) -> tuple[np.ndarray, np.ndarray]:
    """Scales and biases in float64, where the product of a scale and a zero point is exact."""
    arrays = weight.arrays
    plane = GroupPlane.of(weight.shape, spec.group_size, spec.layout, weight.planes)
    scales = plane.read(arrays["scales"]).astype(np.float64)
    if isinstance(spec, MLXSpec):
        return scales, plane.read(arrays["biases"]).astype(np.float64)
    if spec.is_symmetric:
        return scales, -(2.0 ** (spec.bits - 1)) * scales
    zero_points = plane.read(unpack(arrays["zero_points"], spec.bits, plane.shape[-1]))
    return scales, -zero_points.astype(np.float64) * scales
