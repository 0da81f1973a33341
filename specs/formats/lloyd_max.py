"""Codes into a table fitted to normally distributed weights, with an 8-bit scale per group.

Lloyd 1982, "Least squares quantization in PCM", is the method that fitted the tables.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np

from masu.specs.formats.base import Format, Planes
from masu.specs.formats.lloyd_max_tables import Bits, GroupSize, bias_table, codebook
from masu.specs.formats.packing import packed_shape, unpack
from masu.specs.formats.planes import group_problem
from masu.specs.strict import IntegersOnly
from masu.specs.tensors import ArraySpec, Layout, Shape


class LloydMaxSpec(Format):
    """`w = (codebook[code] - bias_table[bias_index]) * scale`, the bias only if it has bits.

    Group parameters stand as `[..., rows, groups]` always.
    """

    type: Literal["LloydMaxSpec"]
    bits: Annotated[Bits, IntegersOnly]
    group_size: Annotated[GroupSize, IntegersOnly]
    bias_bits: Annotated[Bits | None, IntegersOnly]
    layout: Layout

    @property
    def stored_layout(self) -> Layout:
        return self.layout

    def problem(self, shape: Shape) -> str | None:
        return group_problem(shape, self.group_size)

    def arrays(self, shape: Shape, dtype: str, planes: Planes) -> dict[str, ArraySpec]:
        groups = (*shape[:-1], shape[-1] // self.group_size)
        arrays = {
            "weights": ArraySpec("U8", packed_shape(shape, self.bits)),
            "scales": ArraySpec("F8_E4M3", groups),
        }
        if self.bias_bits is not None:
            arrays["bias_indices"] = ArraySpec("U8", packed_shape(groups, self.bias_bits))
        return arrays

    def decode(
        self, arrays: Mapping[str, Any], shape: Shape, planes: Planes, dtype: Any, xp: Any = np
    ) -> Any:
        codes = unpack(arrays["weights"], self.bits, shape[-1], xp)
        table = codebook(self.bits, self.group_size, self.bias_bits)
        levels = xp.asarray(table, dtype)[codes].reshape(*shape[:-1], -1, self.group_size)
        if self.bias_bits is not None:
            indices = unpack(arrays["bias_indices"], self.bias_bits, levels.shape[-2], xp)
            biases = bias_table(self.bits, self.group_size, self.bias_bits)
            levels = levels - xp.asarray(biases, dtype)[indices][..., None]
        return (levels * arrays["scales"].astype(dtype)[..., None]).reshape(shape)
