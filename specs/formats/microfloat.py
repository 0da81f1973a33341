"""4-bit floats (E2M1) with a narrow scale for each group: MXFP4 and NVFP4.

Source: OCP Microscaling Formats (MX) v1.0 for E2M1 and E8M0; NVFP4 has E4M3 scales and one
more scale for the whole matrix.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np

from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.formats.base import Format, Planes
from masu.specs.formats.packing import packed_shape, unpack
from masu.specs.formats.planes import group_problem
from masu.specs.strict import Count, IntegersOnly
from masu.specs.tensors import ArraySpec, Layout, Shape

_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
E2M1 = (*_MAGNITUDES, *(-magnitude for magnitude in _MAGNITUDES))
"""The value of each code: a sign bit above two bits of exponent and one of mantissa."""


class MicrofloatSpec(Format):
    """`w = E2M1[code] * scale * global_scale`; scales stand as `[..., rows, groups]` always."""

    type: Literal["MicrofloatSpec"]
    bits: Annotated[Literal[4], IntegersOnly]
    group_size: Count
    scale_mode: Literal["mxfp4", "nvfp4"]
    layout: Layout

    @property
    def stored_layout(self) -> Layout:
        return self.layout

    def problem(self, shape: Shape) -> str | None:
        return group_problem(shape, self.group_size)

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
