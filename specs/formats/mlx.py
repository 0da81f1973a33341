"""MLX's affine codes: a scale and a bias for each group of columns."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np

from masu.specs.formats.base import Format, Planes
from masu.specs.formats.packing import packed_shape, unpack
from masu.specs.formats.planes import GroupPlane, group_problem
from masu.specs.strict import Count, IntegersOnly
from masu.specs.tensors import ArraySpec, Layout, Shape


class MLXSpec(Format):
    """`w = code * scale + bias`."""

    type: Literal["MLXSpec"]
    bits: Annotated[Literal[1, 4, 8], IntegersOnly]
    group_size: Count
    layout: Layout

    @property
    def stored_layout(self) -> Layout:
        return self.layout

    def problem(self, shape: Shape) -> str | None:
        return group_problem(shape, self.group_size)

    def arrays(self, shape: Shape, dtype: str, planes: Planes) -> dict[str, ArraySpec]:
        plane = GroupPlane.of(shape, self.group_size, self.layout, planes)
        return {
            "weights": ArraySpec("U8", packed_shape(shape, self.bits)),
            "scales": ArraySpec(dtype, plane.shape),
            "biases": ArraySpec(dtype, plane.shape),
        }

    def decode(
        self, arrays: Mapping[str, Any], shape: Shape, planes: Planes, dtype: Any, xp: Any = np
    ) -> Any:
        plane = GroupPlane.of(shape, self.group_size, self.layout, planes)
        codes = unpack(arrays["weights"], self.bits, shape[-1], xp).astype(dtype)
        grouped = codes.reshape(*shape[:-1], plane.groups, self.group_size)
        scales = plane.read(arrays["scales"], xp).astype(dtype)[..., None]
        biases = plane.read(arrays["biases"], xp).astype(dtype)[..., None]
        return (grouped * scales + biases).reshape(shape)
