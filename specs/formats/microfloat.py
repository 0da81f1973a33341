"""4-bit floats (E2M1) with a narrow scale for each group: MXFP4 and NVFP4.

Source: OCP Microscaling Formats (MX) v1.0 for E2M1 and E8M0; NVFP4 has E4M3 scales and one
more scale for the whole matrix.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.formats.base import Planes
from masu.specs.formats.grouped import GroupedFormat, largest_magnitude, of_lowest_error
from masu.specs.formats.ladder import Ladder, Steps
from masu.specs.formats.native.encoders import levels_of, serves
from masu.specs.formats.packing import packed_shape, unpack
from masu.specs.formats.planes import GroupPlane
from masu.specs.formats.rounding import (
    SMALLEST_NORMAL,
    e4m3_bytes,
    e4m3_neighbour,
    e4m3_values,
    scale_above,
)
from masu.specs.strict import Count, IntegersOnly
from masu.specs.tensors import ArraySpec, Layout, Shape

_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
E2M1 = (*_MAGNITUDES, *(-magnitude for magnitude in _MAGNITUDES))
"""The value of each code: a sign bit above two bits of exponent and one of mantissa."""


LARGEST = np.float32(6)
"""The largest E2M1 number."""

OTHER_SCALES = (-1, 1, -2, 2, 3, 4, 5)
"""NVFP4 scales that are tried beside the nearest: so many E4M3 numbers away from it. Five numbers
further up the largest magnitude is at about 4 instead of 6, where neighbours are closer."""


def _ladder() -> Ladder:
    """Halfway between two magnitudes, the one with the even code is nearest."""
    levels = np.array(_MAGNITUDES, np.float32)
    halfway = (levels[1:] + levels[:-1]) * np.float32(0.5)
    below = np.nextafter(halfway, np.float32(0))
    upper_is_even = np.arange(1, len(levels)) % 2 == 0
    return Ladder(levels, np.where(upper_is_even, below, halfway), mirrored=True)


_LADDER = _ladder()


class MicrofloatParameters(NamedTuple):
    """Both float32 `[..., rows, groups]`; the global scale is the same all over a matrix."""

    scales: np.ndarray
    global_scales: np.ndarray


class MicrofloatSpec(GroupedFormat):
    """`w = E2M1[code] * scale * global_scale`; scales stand as `[..., rows, groups]` always.

    Of two codes at the same distance the one with the even mantissa is chosen (as OCP MX wants),
    and zero is always code 0. Values beyond 6 steps are cut off.
    """

    type: Literal["MicrofloatSpec"]
    bits: Annotated[Literal[4], IntegersOnly]
    group_size: Count
    scale_mode: Literal["mxfp4", "nvfp4"]
    layout: Layout

    @property
    def row_multiple(self) -> int | None:
        return 1 if self.scale_mode == "mxfp4" else None

    def arrays(self, shape: Shape, dtype: str, planes: Planes) -> dict[str, ArraySpec]:
        *lead, rows, columns = shape
        scale_dtype = "U8" if self.scale_mode == "mxfp4" else "F8_E4M3"
        return {
            "weights": ArraySpec("U8", packed_shape(shape, self.bits)),
            "scales": ArraySpec(scale_dtype, (*lead, rows, columns // self.group_size)),
            "global_scale": ArraySpec(dtype, tuple(lead)),
        }

    def decode(
        self, arrays: Mapping[str, Any], shape: Shape, planes: Planes, dtype: Any, xp: Any = np
    ) -> Any:
        codes = unpack(arrays["weights"], self.bits, shape[-1], xp)
        values = xp.asarray(E2M1, dtype)[codes]
        grouped = values.reshape(*shape[:-1], -1, self.group_size)
        scaled = grouped * self._scales(arrays["scales"], dtype)[..., None]
        return scaled.reshape(shape) * arrays["global_scale"].astype(dtype)[..., None, None]

    def _scales(self, stored: Any, dtype: Any) -> Any:
        """`[..., rows, groups]`. MXFP4 keeps exponent + 127 in a byte, which is an E8M0 float."""
        if self.scale_mode == "mxfp4":
            stored = stored.view(NUMPY_DTYPES["F8_E8M0"])
        return stored.astype(dtype)

    def row_axis(self, suffix: str, planes: Planes) -> int | None:
        return None if suffix == "global_scale" else -2

    def whole(self, values: np.ndarray, dtype: str) -> np.ndarray:
        """The global scale: 1 for MXFP4; for NVFP4 such that the largest scale is 448."""
        if self.scale_mode == "mxfp4":
            return np.ones((*values.shape[:-2], 1, 1), np.float32)
        ends = [end((-2, -1), keepdims=True).astype(np.float32) for end in (values.min, values.max)]
        peaks = np.abs(ends).max(0)
        global_scales = scale_above(peaks / (LARGEST * np.float32(448)), dtype)
        return np.where(peaks == 0, np.float32(1), global_scales)

    def fit(
        self, groups: np.ndarray, dtype: str, whole: np.ndarray | None = None
    ) -> MicrofloatParameters:
        """Scales by least squared error.

        MXFP4: OCP MX v1.0 section 6.3 takes the exponent of the largest magnitude less 2, which
        cuts off what is above 6 steps; the next exponent, which cuts off nothing, is tried too.
        """
        largest = largest_magnitude(groups)
        shared = np.float32(1) if whole is None else whole
        global_scales = np.broadcast_to(shared, largest.shape)
        by_mode = self._powers_of_two if self.scale_mode == "mxfp4" else self._e4m3_scales
        candidates = by_mode(largest, global_scales)
        parameters = (MicrofloatParameters(scales, global_scales) for scales in candidates)
        return of_lowest_error(self, groups, parameters)

    @property
    def ladder(self) -> Ladder:
        return _LADDER

    def steps(self, parameters: MicrofloatParameters) -> Steps:
        scales, shared = parameters
        return Steps(scales * shared, np.zeros_like(scales), scales, shared)

    def codes(self, groups: np.ndarray, parameters: MicrofloatParameters) -> np.ndarray:
        steps = self.steps(parameters)
        if serves(_LADDER, groups.shape[-1]):
            return levels_of(groups, _LADDER, steps)
        return _nearest(steps.places(groups))

    def values(self, codes: np.ndarray, parameters: MicrofloatParameters) -> np.ndarray:
        scaled = np.array(E2M1, np.float32)[codes] * parameters.scales[..., None]
        return scaled * parameters.global_scales[..., None]

    def planes(
        self, parameters: MicrofloatParameters, plane: GroupPlane, dtype: str, lead: Shape
    ) -> dict[str, np.ndarray]:
        target = NUMPY_DTYPES["F8_E8M0" if self.scale_mode == "mxfp4" else "F8_E4M3"]
        scales = parameters.scales.astype(target)
        global_scale = parameters.global_scales[..., 0, 0].astype(NUMPY_DTYPES[dtype])
        return {
            "scales": scales.view(np.uint8) if self.scale_mode == "mxfp4" else scales,
            "global_scale": np.asarray(global_scale).reshape(lead),
        }

    def _powers_of_two(self, largest: np.ndarray, global_scales: np.ndarray) -> list[np.ndarray]:
        """Of `largest`, in [2 ** e, 2 ** (e + 1)): 2 ** (e - 2) and 2 ** (e - 1)."""
        _, exponents = np.frexp(largest)  # e + 1
        powers = (np.ldexp(np.float32(1), exponents - distance) for distance in (3, 2))
        is_zero = largest == 0
        return [np.where(is_zero, SMALLEST_NORMAL, p).clip(SMALLEST_NORMAL) for p in powers]

    def _e4m3_scales(self, largest: np.ndarray, global_scales: np.ndarray) -> list[np.ndarray]:
        """The nearest to what puts `largest` at 6 steps, and those around it."""
        nearest = e4m3_bytes(largest / LARGEST / global_scales)
        return [e4m3_values(e4m3_neighbour(nearest, d)) for d in (0, *OTHER_SCALES)]


def _nearest(steps: np.ndarray) -> np.ndarray:
    """E2M1 codes of float32 numbers. Overwrites them.

    Codes ascend by one every half up to 2, every 1 up to 4, every 2 from there: each of these
    lines is below the other two where it holds. An even code has an even mantissa.
    """
    signs = (steps < 0).view(np.uint8)
    magnitudes = np.abs(steps, out=steps)
    codes = np.rint(magnitudes * np.float32(2))
    for slope, start in ((1, 2), (0.5, 4)):
        line = np.rint(magnitudes * np.float32(slope))
        line += np.float32(start)
        np.minimum(codes, line, out=codes)
    codes = np.minimum(codes, np.float32(7), out=codes).astype(np.uint8)
    return codes | signs * (codes != 0).view(np.uint8) << 3
