"""A quantised core between random sign flips and Hadamard transforms, with an optional adapter.

The rotations make the entries of the core alike (randomised Hadamard transform, RHT: Tseng et al.
2024, "QuIP#", section 3), and the adapter holds part of what the core loses.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import Discriminator

from masu.specs.formats.base import Format, Planes
from masu.specs.formats.full_precision import FullPrecisionSpec
from masu.specs.formats.hadamard import hadamard, hadamard_problem
from masu.specs.formats.integer import IntSpec
from masu.specs.formats.lloyd_max import LloydMaxSpec
from masu.specs.formats.low_rank import LowRankSpec
from masu.specs.formats.microfloat import MicrofloatSpec
from masu.specs.formats.mlx import MLXSpec
from masu.specs.strict import IntegersOnly
from masu.specs.tensors import ArraySpec, Layout, Shape

PlainFormat: TypeAlias = Annotated[
    FullPrecisionSpec | IntSpec | MLXSpec | LloydMaxSpec | MicrofloatSpec | LowRankSpec,
    Discriminator("type"),
]
"""What a hybrid may be made of."""

Side = Literal["input", "output"]
SIDES: tuple[Side, ...] = ("input", "output")


class HybridSpec(Format):
    """`W = D_out H (Q H D_in + A)` `[out, in]`: core Q, adapter A, signs D, Hadamard transform H.

    A side that the mode leaves out has neither signs nor H; block size null leaves out both.
    Arrays: `quantized.*`, `adapter.*`, `incoherence_signs.input_signs` and `.output_signs`.
    """

    type: Literal["HybridSpec"]
    quantization_spec: PlainFormat
    adapter_spec: PlainFormat | None
    incoherence_block_size: Annotated[Literal[32, 64, 128] | None, IntegersOnly]
    incoherence_processing_mode: Literal["input", "output", "input_output"]

    @property
    def stored_layout(self) -> Layout:
        return self.quantization_spec.stored_layout

    @property
    def parts(self) -> dict[str, PlainFormat]:
        """The formats inside, by the name of their folder."""
        parts: dict[str, PlainFormat] = {"quantized": self.quantization_spec}
        if self.adapter_spec is not None:
            parts["adapter"] = self.adapter_spec
        return parts

    def block(self, side: Side) -> int | None:
        """The Hadamard block of one side of the matrix; None where that side is not rotated."""
        is_rotated = side in self.incoherence_processing_mode.split("_")
        return self.incoherence_block_size if is_rotated else None

    def axis(self, side: Side) -> int:
        """The axis of the stored matrix along which the channels of that side lie."""
        return -1 if (side == "input") == (self.stored_layout == "output_input") else -2

    def problem(self, shape: Shape) -> str | None:
        problems = [part.problem(self._part_shape(part, shape)) for part in self.parts.values()]
        problems += [
            hadamard_problem(shape[self.axis(side)], block)
            for side in SIDES
            if (block := self.block(side)) is not None
        ]
        return "; ".join(filter(None, problems)) or None

    def arrays(self, shape: Shape, dtype: str, planes: Planes) -> dict[str, ArraySpec]:
        arrays = {
            f"{name}.{suffix}": array
            for name, part in self.parts.items()
            for suffix, array in part.arrays(self._part_shape(part, shape), dtype, planes).items()
        }
        for side in SIDES:
            if self.block(side) is not None:
                signs = (*shape[:-2], shape[self.axis(side)])
                arrays[f"incoherence_signs.{side}_signs"] = ArraySpec("I32", signs)
        return arrays

    def decode(
        self, arrays: Mapping[str, Any], shape: Shape, planes: Planes, dtype: Any, xp: Any = np
    ) -> Any:
        def decoded(name: str, part: PlainFormat) -> Any:
            own = {key.removeprefix(f"{name}."): value for key, value in arrays.items()}
            matrix = part.decode(own, self._part_shape(part, shape), planes, dtype, xp)
            return matrix if self._lies_like(part) else xp.swapaxes(matrix, -1, -2)

        matrix = self._unrotated(decoded("quantized", self.quantization_spec), "input", arrays, xp)
        if self.adapter_spec is not None:
            matrix = matrix + decoded("adapter", self.adapter_spec)
        return self._unrotated(matrix, "output", arrays, xp)

    def metadata(self, path: str) -> dict[str, str]:
        """Also the entries of the parts: uzu reads the core's own, lalamo writes all."""
        entries = super().metadata(path)
        for name, part in self.parts.items():
            entries |= part.metadata(f"{path}.{name}")
        return entries

    def _lies_like(self, part: PlainFormat) -> bool:
        return part.stored_layout == self.stored_layout

    def _part_shape(self, part: PlainFormat, shape: Shape) -> Shape:
        """The shape of the matrix as that part stores it; an adapter may lie the other way."""
        *lead, rows, columns = shape
        return shape if self._lies_like(part) else (*lead, columns, rows)

    def _unrotated(self, matrix: Any, side: Side, arrays: Mapping[str, Any], xp: Any) -> Any:
        """The matrix after Hadamard transform and signs of one side, where it has them."""
        if (block := self.block(side)) is None:
            return matrix
        axis = self.axis(side)
        signs = arrays[f"incoherence_signs.{side}_signs"].astype(matrix.dtype)
        other_axis = -3 - axis
        return hadamard(matrix, block, axis, xp) * xp.expand_dims(signs, other_axis)
