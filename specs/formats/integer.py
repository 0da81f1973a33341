"""Unsigned integer codes with a scale, and perhaps a zero point, for each group of columns."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np

from masu.specs.formats.base import Format, Planes
from masu.specs.formats.packing import packed_shape, unpack
from masu.specs.formats.planes import GroupPlane, group_problem
from masu.specs.strict import Count, IntegersOnly
from masu.specs.tensors import ArraySpec, Layout, Shape


class IntSpec(Format):
    """`w = (code - zero_point) * scale`; symmetric: the zero point is `2 ** (bits - 1)`."""

    type: Literal["IntSpec"]
    bits: Annotated[Literal[4, 8], IntegersOnly]
    group_size: Count
    is_symmetric: bool
    layout: Layout

    @property
    def stored_layout(self) -> Layout:
        return self.layout

    def problem(self, shape: Shape) -> str | None:
        return group_problem(shape, self.group_size)

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
