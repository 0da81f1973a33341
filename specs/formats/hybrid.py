"""A quantised core between random sign flips and Hadamard transforms, with an optional adapter.

The rotations make the entries of the core alike (randomised Hadamard transform, RHT: Tseng et al.
2024, "QuIP#", section 3), and the adapter holds part of what the core loses.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import Discriminator

from masu.specs.formats.base import Arrays, Format, Planes
from masu.specs.formats.full_precision import FullPrecisionSpec
from masu.specs.formats.hadamard import hadamard, hadamard_problem
from masu.specs.formats.incoherence import SIDES, Side, signs
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

    @property
    def is_core_alone(self) -> bool:
        """Whether it is its core: without an adapter, and neither side rotated."""
        return self.adapter_spec is None and self.incoherence_block_size is None

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
            matrix = part.decode(
                below(name, arrays), self._part_shape(part, shape), planes, dtype, xp
            )
            return matrix if self._lies_like(part) else xp.swapaxes(matrix, -1, -2)

        matrix = self._unrotated(decoded("quantized", self.quantization_spec), "input", arrays, xp)
        if self.adapter_spec is not None:
            matrix = matrix + decoded("adapter", self.adapter_spec)
        return self._unrotated(matrix, "output", arrays, xp)

    def encode(self, values: np.ndarray, dtype: str, planes: Planes) -> dict[str, np.ndarray]:
        """Each part by its own format: the core of the rotated matrix, the adapter of what is left.

        With the sign vectors of `incoherence`.
        """
        rotated = self.rotated(values)
        arrays = under("quantized", self.quantization_spec.encode(rotated, dtype, planes))
        return self.completed(arrays, rotated, dtype, planes)

    def rotated(self, values: np.ndarray) -> np.ndarray:
        """The matrix that the core is to hold: `H D_out W D_in H`, in float32 at least."""
        values = values.astype(np.result_type(values.dtype, np.float32), copy=False)
        for side in SIDES:
            values = self._rotated(values, side)
        return values

    def completed(
        self, arrays: Arrays, rotated: np.ndarray, dtype: str, planes: Planes
    ) -> dict[str, np.ndarray]:
        """All arrays, from those of the core (`quantized.*`) and the rotated matrix it stands for.

        Adds the signs, and the adapter that holds what the core misses.
        """
        completed = {**arrays, **self._stored_signs(rotated)}
        if (adapter := self.adapter_spec) is not None:
            core = self.quantization_spec
            own = below("quantized", arrays)
            missing = rotated - core.decode(own, rotated.shape, planes, np.float32)
            missing = self._unrotated(missing, "input", completed, np)
            missing = missing if self._lies_like(adapter) else missing.swapaxes(-1, -2)
            completed |= under("adapter", adapter.encode(missing, dtype, planes))
        return completed

    @property
    def row_multiple(self) -> int | None:
        """All at once if the rows are mixed, or an adapter lies the other way."""
        if any(self.axis(side) == -2 and self.block(side) is not None for side in SIDES):
            return None
        if not all(self._lies_like(part) for part in self.parts.values()):
            return None
        multiples = [part.row_multiple for part in self.parts.values()]
        known = [multiple for multiple in multiples if multiple is not None]
        return math.lcm(*known) if len(known) == len(multiples) else None

    def row_axis(self, suffix: str, planes: Planes) -> int | None:
        """Signs are alike in all chunks: where rows stand apart only columns are rotated."""
        folder, _, own = suffix.partition(".")
        return self.parts[folder].row_axis(own, planes) if folder in self.parts else None

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
        flips = arrays[f"incoherence_signs.{side}_signs"].astype(matrix.dtype)
        other_axis = -3 - axis
        return hadamard(matrix, block, axis, xp) * xp.expand_dims(flips, other_axis)

    def _rotated(self, matrix: np.ndarray, side: Side) -> np.ndarray:
        """The inverse of `_unrotated`: signs, then Hadamard transform."""
        if (block := self.block(side)) is None:
            return matrix
        axis = self.axis(side)
        flips = signs(side, matrix.shape[axis]).astype(matrix.dtype)
        return hadamard(matrix * (flips if axis == -1 else flips[:, None]), block, axis)

    def _stored_signs(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Every leading index (expert) has the same."""
        return {
            f"incoherence_signs.{side}_signs": np.tile(
                signs(side, matrix.shape[self.axis(side)]), (*matrix.shape[:-2], 1)
            )
            for side in SIDES
            if self.block(side) is not None
        }


def under(folder: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays of a part, as the whole names them: `<folder>.<suffix>`."""
    return {f"{folder}.{suffix}": array for suffix, array in arrays.items()}


def below(folder: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays of the part in that folder, by its own suffixes."""
    prefix = f"{folder}."
    return {key.removeprefix(prefix): a for key, a in arrays.items() if key.startswith(prefix)}
