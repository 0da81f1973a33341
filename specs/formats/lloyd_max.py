"""Codes into a table fitted to normally distributed weights, with an 8-bit scale per group.

Lloyd 1982, "Least squares quantization in PCM", is the method that fitted the tables.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.formats.base import Planes
from masu.specs.formats.grouped import GroupedFormat, largest_magnitude, of_lowest_error
from masu.specs.formats.ladder import Ladder, Steps
from masu.specs.formats.lloyd_max_tables import Bits, GroupSize, bias_table, codebook
from masu.specs.formats.native.encoders import levels_of, serves
from masu.specs.formats.packing import pack, packed_shape, unpack
from masu.specs.formats.planes import GroupPlane
from masu.specs.formats.rounding import e4m3_bytes, e4m3_neighbour, e4m3_values
from masu.specs.strict import IntegersOnly
from masu.specs.tensors import ArraySpec, Layout, Shape

OTHER_SCALES = (-1, 1, -2, 2, -3, 3)
"""The scales that are tried beside the nearest: so many E4M3 numbers away from it."""


class LloydMaxParameters(NamedTuple):
    """Both `[..., rows, groups]`: float32 scales that E4M3 holds, uint8 indices (0 if no bias)."""

    scales: np.ndarray
    bias_indices: np.ndarray


class LloydMaxSpec(GroupedFormat):
    """`w = (codebook[code] - bias_table[bias_index]) * scale`, the bias only if it has bits.

    Group parameters stand as `[..., rows, groups]` always. Of two codes at the same distance the
    lower one is chosen. E4M3 reaches from 2 ** -9 to 448: a group whose largest magnitude is below
    half of the one becomes zero, and values far above the other are cut off.
    """

    type: Literal["LloydMaxSpec"]
    bits: Annotated[Bits, IntegersOnly]
    group_size: Annotated[GroupSize, IntegersOnly]
    bias_bits: Annotated[Bits | None, IntegersOnly]
    layout: Layout

    @property
    def row_multiple(self) -> int | None:
        return 1

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

    def fit(
        self, groups: np.ndarray, dtype: str, whole: np.ndarray | None = None
    ) -> LloydMaxParameters:
        """By least squared error: every bias under the nearest scale, then the scales around it."""
        nearest = e4m3_bytes(largest_magnitude(groups))
        scales = e4m3_values(nearest)
        count = 1 if self.bias_bits is None else 2**self.bias_bits
        with_biases = (
            LloydMaxParameters(scales, np.full(scales.shape, index, np.uint8))
            for index in range(count)
        )
        best = of_lowest_error(self, groups, with_biases)
        others = (
            best._replace(scales=e4m3_values(e4m3_neighbour(nearest, distance)))
            for distance in (0, *OTHER_SCALES)
        )
        return of_lowest_error(self, groups, others)

    @property
    def ladder(self) -> Ladder:
        """Thresholds halfway between two levels."""
        table = codebook(self.bits, self.group_size, self.bias_bits)
        return Ladder(table, (table[1:] + table[:-1]) * np.float32(0.5))

    def steps(self, parameters: LloydMaxParameters) -> Steps:
        scales = parameters.scales
        biases = np.float32(0) if self.bias_bits is None else self._biases(parameters)[..., 0]
        one = np.ones_like(scales)
        return Steps(scales, one * biases, scales, one)

    def codes(self, groups: np.ndarray, parameters: LloydMaxParameters) -> np.ndarray:
        ladder, steps = self.ladder, self.steps(parameters)
        if serves(ladder, groups.shape[-1]):
            return levels_of(groups, ladder, steps)
        return np.searchsorted(ladder.thresholds, steps.places(groups)).astype(np.uint8)

    def values(self, codes: np.ndarray, parameters: LloydMaxParameters) -> np.ndarray:
        levels = codebook(self.bits, self.group_size, self.bias_bits)[codes]
        if self.bias_bits is not None:
            levels = levels - self._biases(parameters)
        return levels * parameters.scales[..., None]

    def planes(
        self, parameters: LloydMaxParameters, plane: GroupPlane, dtype: str, lead: Shape
    ) -> dict[str, np.ndarray]:
        arrays = {"scales": parameters.scales.astype(NUMPY_DTYPES["F8_E4M3"])}
        if self.bias_bits is not None:
            arrays["bias_indices"] = pack(parameters.bias_indices, self.bias_bits)
        return arrays

    def _biases(self, parameters: LloydMaxParameters) -> np.ndarray:
        """`[..., rows, groups, 1]`; only where there are bias bits."""
        assert self.bias_bits is not None
        table = bias_table(self.bits, self.group_size, self.bias_bits)
        return table[parameters.bias_indices][..., None]
