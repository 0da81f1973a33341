"""FP8 weights (E4M3) with a scale for every block, row or matrix: decoded, for no format has them.

The value is `weight * scale` in float32, which is exact where the scale has at most 20 bits of
mantissa. Blocks at the right and lower edges may be cut short.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import model_validator

from masu.converter.checkpoint import SourceTensor
from masu.converter.quantised.method import Method
from masu.converter.quantised.method import Settings as MethodSettings
from masu.converter.quantised.module import (
    Module,
    Presented,
    Tensors,
    need_floats,
    present_modules,
)
from masu.specs.errors import TensorMismatch

BLOCK_SCALES, SCALE = "weight_scale_inv", "weight_scale"
"""Both are what decoding multiplies by; the first is the inverse of what quantising did."""


class Settings(MethodSettings):
    """With `weight_block_size` the scales are `weight_scale_inv`, without `weight_scale`."""

    INERT: ClassVar = frozenset(
        {"activation_scheme", "modules_to_not_convert", "ignored_layers", "dequantize"}
    )

    quant_method: Literal["fp8"]
    fmt: Literal["e4m3"] = "e4m3"
    weight_block_size: tuple[int, int] | None = None
    scale_fmt: Literal["float"] | None = None

    @model_validator(mode="after")
    def _has_blocks(self) -> "Settings":
        if self.weight_block_size is not None and min(self.weight_block_size) <= 0:
            raise ValueError("weight_block_size: expected positive sizes")
        return self


def present(settings: Settings, tensors: Tensors) -> Presented:
    blocks = settings.weight_block_size
    anchor = SCALE if blocks is None else BLOCK_SCALES
    others = ("weight", "input_scale", "activation_scale")
    return present_modules(tensors, anchor, others, lambda m: scaled(m, anchor, blocks))


def scaled(module: Module, suffix: str, blocks: tuple[int, int] | None) -> SourceTensor:
    """The decoded matrix of a layer; without `blocks`, a scale for each row or for all.

    Raises:
        TensorMismatch: not E4M3, or as many scales as nothing has.
    """
    weight = module.matrix("weight", ("F8_E4M3",))
    scales = need_floats(module.need(suffix))
    rows, columns = weight.shape
    if blocks is None:
        expected = [(1,), (), (1, 1), (rows, 1), (rows,)]
        height, width = (1 if scales.shape[:1] == (rows,) else rows), columns
    else:
        height, width = blocks
        expected = [(-(-rows // height), -(-columns // width))]
    if scales.shape not in expected:
        wanted = " or ".join(str(list(shape)) for shape in dict.fromkeys(expected))
        raise TensorMismatch(
            f"{scales.name}: expected {wanted} for {list(weight.shape)}, found {list(scales.shape)}"
        )
    return replace(
        weight,
        name=f"{module.name}.weight",
        dtype="F32",
        read=_products(weight, scales, height, width),
        raw=None,
        decoded_from="FP8 with scales",
    )


def _products(
    weight: SourceTensor, scales: SourceTensor, height: int, width: int
) -> Callable[[int, int], np.ndarray]:
    columns = weight.shape[1]

    def read(start: int, stop: int) -> np.ndarray:
        if start == stop:
            return np.empty((0, columns), np.float32)
        first, last = start // height, -(-stop // height)
        whole = scales.read(0, scales.shape[0] if scales.shape else 1)
        blocks = whole.astype(np.float32).reshape(-(-weight.shape[0] // height), -1)[first:last]
        by_row = blocks[np.arange(start, stop) // height - first]
        by_column = np.repeat(by_row, width, axis=1)[:, :columns]
        return weight.read(start, stop).astype(np.float32) * by_column

    return read


METHOD = Method(name="fp8", settings=Settings, present=present)
