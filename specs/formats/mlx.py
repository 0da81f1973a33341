"""MLX's affine codes: a scale and a bias for each group of columns."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.formats.base import Planes
from masu.specs.formats.grouped import GroupedFormat, extremes
from masu.specs.formats.packing import packed_shape, unpack
from masu.specs.formats.planes import GroupPlane
from masu.specs.formats.rounding import at_most, scale_above
from masu.specs.strict import Count, IntegersOnly
from masu.specs.tensors import ArraySpec, Layout, Shape


class MLXParameters(NamedTuple):
    """Both float32 `[..., rows, groups]`, rounded as they are stored."""

    scales: np.ndarray
    biases: np.ndarray


class MLXSpec(GroupedFormat):
    """`w = code * scale + bias`.

    The bias is the smallest value of the group, and the scale reaches the largest: a value is at
    most half a step from its code, which is the even one of two at the same distance. A group of
    one value has the smallest scale and only codes 0. MLX's own choice is a method of its own.
    """

    type: Literal["MLXSpec"]
    bits: Annotated[Literal[1, 4, 8], IntegersOnly]
    group_size: Count
    layout: Layout

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

    def fit(self, groups: np.ndarray, dtype: str, whole: np.ndarray | None = None) -> MLXParameters:
        """The largest bias and the smallest scale between which each group lies."""
        top = np.float32(2**self.bits - 1)
        lowest, highest = extremes(groups)
        biases = at_most(lowest, dtype)
        return MLXParameters(scale_above((highest - biases) / top, dtype), biases)

    def codes(self, groups: np.ndarray, parameters: MLXParameters) -> np.ndarray:
        codes = groups - parameters.biases[..., None]
        codes /= parameters.scales[..., None]
        np.rint(codes, out=codes)
        return codes.clip(0, 2**self.bits - 1, out=codes).astype(np.uint8)

    def values(self, codes: np.ndarray, parameters: MLXParameters) -> np.ndarray:
        scaled = codes.astype(np.float32) * parameters.scales[..., None]
        return scaled + parameters.biases[..., None]

    def planes(
        self, parameters: MLXParameters, plane: GroupPlane, dtype: str, lead: Shape
    ) -> dict[str, np.ndarray]:
        stored = NUMPY_DTYPES[dtype]
        return {
            "scales": plane.write(parameters.scales.astype(stored)),
            "biases": plane.write(parameters.biases.astype(stored)),
        }

    def row_axis(self, suffix: str, planes: Planes) -> int | None:
        return -2 if suffix == "weights" else GroupPlane.row_axis(self.layout, planes)
