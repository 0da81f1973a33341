"""Tables in 4-vectors of a 256-entry codebook, with a 4-bit ladder of scales, about 2 bits."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from masu.specs.formats.base import Format, Planes
from masu.specs.formats.hadamard import hadamard
from masu.specs.formats.packing import packed_shape, unpack
from masu.specs.tensors import ArraySpec, Layout, Shape

VECTOR = 4
"""Columns that one code stands for."""

STEP = 64
"""Columns that share one step of the ladder."""

HADAMARD_BLOCK = 32


class D4S4Spec(Format):
    """`w = (H (row_scale * ladder[index] * table[code])) * output_hadamard_factor`, row by row.

    Only for tables `[vocab, width]` that are looked up. uzu 0.6.13 reads it; lalamo has no word
    for it. The codebook, the ladder and the row scales are whatever the file says.
    """

    type: Literal["D4S4Spec"]
    layout: Literal["input_output"]

    @property
    def stored_layout(self) -> Layout:
        return self.layout

    def problem(self, shape: Shape) -> str | None:
        if len(shape) != 2:
            return f"a table has two axes, not the {len(shape)} of {list(shape)}"
        if shape[1] % (2 * STEP):
            return f"{shape[1]} columns are not a multiple of {2 * STEP}"
        return None

    def arrays(self, shape: Shape, dtype: str, planes: Planes) -> dict[str, ArraySpec]:
        rows, columns = shape
        return {
            "codes": ArraySpec("U8", (rows, columns // VECTOR)),
            "row_scales": ArraySpec(dtype, (rows,)),
            "ladder_indices": ArraySpec("U8", packed_shape((rows, columns // STEP), 4)),
            "ladder": ArraySpec("F16", (16,)),
            "table": ArraySpec("I8", (256, VECTOR)),
            "output_hadamard_factors": ArraySpec("I32", (columns,)),
        }

    def decode(
        self, arrays: Mapping[str, Any], shape: Shape, planes: Planes, dtype: Any, xp: Any = np
    ) -> Any:
        rows, columns = shape
        steps = unpack(arrays["ladder_indices"], 4, columns // STEP, xp)
        scales = arrays["row_scales"].astype(dtype)[:, None] * arrays["ladder"].astype(dtype)[steps]
        vectors = arrays["table"].astype(dtype)[arrays["codes"]]
        scaled = vectors.reshape(rows, -1, STEP) * scales[..., None]
        rotated = hadamard(scaled.reshape(shape), HADAMARD_BLOCK, xp=xp)
        return rotated * arrays["output_hadamard_factors"].astype(dtype)[None, :]
