"""Unsigned integer codes with a scale, and perhaps a zero point, for each group of columns."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.formats.base import Planes
from masu.specs.formats.grouped import GroupedFormat, extremes
from masu.specs.formats.packing import pack, packed_shape, unpack
from masu.specs.formats.planes import GroupPlane
from masu.specs.formats.rounding import scale_above
from masu.specs.strict import Count, IntegersOnly
from masu.specs.tensors import ArraySpec, Layout, Shape


class IntParameters(NamedTuple):
    """Both `[..., rows, groups]`: float32 scales as stored, whole float32 zero points."""

    scales: np.ndarray
    zero_points: np.ndarray


class IntSpec(GroupedFormat):
    """`w = (code - zero_point) * scale`; symmetric: the zero point is `2 ** (bits - 1)`.

    Zero has a code of its own in every group, and no value is cut off: a value is at most half a
    step from its code, which is the even one of two at the same distance. A group of zeros has the
    smallest scale.
    """

    type: Literal["IntSpec"]
    bits: Annotated[Literal[4, 8], IntegersOnly]
    group_size: Count
    is_symmetric: bool
    layout: Layout

    def arrays(self, shape: Shape, dtype: str, planes: Planes) -> dict[str, ArraySpec]:
        plane = GroupPlane.of(shape, self.group_size, self.layout, planes)
        arrays = {
            "weights": ArraySpec("U8", packed_shape(shape, self.bits)),
            "scales": ArraySpec(dtype, plane.shape),
        }
        if not self.is_symmetric:
            arrays["zero_points"] = ArraySpec("U8", packed_shape(plane.shape, self.bits))
        return arrays

    def decode(
        self, arrays: Mapping[str, Any], shape: Shape, planes: Planes, dtype: Any, xp: Any = np
    ) -> Any:
        plane = GroupPlane.of(shape, self.group_size, self.layout, planes)
        codes = unpack(arrays["weights"], self.bits, shape[-1], xp).astype(dtype)
        grouped = codes.reshape(*shape[:-1], plane.groups, self.group_size)
        scales = plane.read(arrays["scales"], xp).astype(dtype)[..., None]
        return ((grouped - self._zero_points(arrays, plane, dtype, xp)) * scales).reshape(shape)

    def _zero_points(
        self, arrays: Mapping[str, Any], plane: GroupPlane, dtype: Any, xp: Any
    ) -> Any:
        """`[..., rows, groups, 1]`, or a scalar."""
        if self.is_symmetric:
            return xp.asarray(2 ** (self.bits - 1), dtype)
        stored = unpack(arrays["zero_points"], self.bits, plane.shape[-1], xp)
        return plane.read(stored, xp).astype(dtype)[..., None]

    def fit(self, groups: np.ndarray, dtype: str, whole: np.ndarray | None = None) -> IntParameters:
        """The smallest stored scale whose codes reach both ends of each group, and zero."""
        lowest, highest = extremes(groups)
        lowest, highest = np.minimum(lowest, 0), np.maximum(highest, 0)
        top = np.float32(2**self.bits - 1)
        if self.is_symmetric:
            half = np.float32(2 ** (self.bits - 1))
            scales = scale_above(np.maximum(highest / (half - 1), -lowest / half), dtype)
            return IntParameters(scales, np.full_like(scales, half))
        scales = scale_above(highest / top - lowest / top, dtype)
        return IntParameters(scales, np.rint(-lowest / scales).clip(0, top))

    def codes(self, groups: np.ndarray, parameters: IntParameters) -> np.ndarray:
        codes = groups / parameters.scales[..., None]
        np.rint(codes, out=codes)
        codes += parameters.zero_points[..., None]
        return codes.clip(0, 2**self.bits - 1, out=codes).astype(np.uint8)

    def values(self, codes: np.ndarray, parameters: IntParameters) -> np.ndarray:
        offsets = codes.astype(np.float32) - parameters.zero_points[..., None]
        return offsets * parameters.scales[..., None]

    def planes(
        self, parameters: IntParameters, plane: GroupPlane, dtype: str, lead: Shape
    ) -> dict[str, np.ndarray]:
        arrays = {"scales": plane.write(parameters.scales.astype(NUMPY_DTYPES[dtype]))}
        if not self.is_symmetric:
            zero_points = plane.write(parameters.zero_points.astype(np.uint8))
            arrays["zero_points"] = pack(zero_points, self.bits)
        return arrays

    def row_axis(self, suffix: str, planes: Planes) -> int | None:
        return -2 if suffix == "weights" else GroupPlane.row_axis(self.layout, planes)
