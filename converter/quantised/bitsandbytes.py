"""bitsandbytes: int8 rows become symmetric integer codes, 4-bit normal floats (NF4) are decoded.

Int8: `w = weight * SCB / 127`, one SCB for each row. NF4: a code is an index into `quant_map`,
times the `absmax` of its block of the flattened matrix; `absmax` may be quantised itself (nested):
an index into `nested_quant_map`, times `nested_absmax`, plus an offset (Dettmers et al. 2023,
"QLoRA", section 3).
"""

import json
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from masu.converter.checkpoint import SourceTensor
from masu.converter.quantised.codes import CodedRows, Grid, coded_matrix
from masu.converter.quantised.method import Method
from masu.converter.quantised.method import Settings as MethodSettings
from masu.converter.quantised.module import Module, Presented, Tensors, present_modules
from masu.specs.errors import TensorMismatch
from masu.specs.tensors import Shape

LARGEST = 127
STATE = "weight.quant_state.bitsandbytes__nf4"
NESTED = ("weight.nested_absmax", "weight.nested_quant_map")


class Settings(MethodSettings):
    INERT: ClassVar = frozenset(
        {"bnb_4bit_compute_dtype", "bnb_4bit_quant_storage", "bnb_4bit_use_double_quant"}
        | {"llm_int8_enable_fp32_cpu_offload", "llm_int8_has_fp16_weight"}
        | {"llm_int8_skip_modules", "llm_int8_threshold"}
    )

    quant_method: Literal["bitsandbytes"]
    load_in_4bit: bool = False
    load_in_8bit: bool = False
    bnb_4bit_quant_type: Literal["nf4", "fp4"] = "fp4"

    @model_validator(mode="before")
    @classmethod
    def _without_copies(cls, values: Any) -> Any:
        """transformers writes some keys a second time, with an underscore."""
        return {key: value for key, value in values.items() if not key.startswith("_load_in_")}

    @model_validator(mode="after")
    def _is_one_of_two(self) -> "Settings":
        if self.load_in_4bit == self.load_in_8bit:
            raise ValueError("expected one of load_in_4bit and load_in_8bit")
        if self.load_in_4bit and self.bnb_4bit_quant_type != "nf4":
            raise ValueError("bnb_4bit_quant_type fp4 is not converted")
        return self


class State(BaseModel):
    """What the writer says of one NF4 matrix, JSON in a tensor of bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    quant_type: Literal["nf4"]
    blocksize: int
    shape: tuple[int, int]
    dtype: str
    nested_blocksize: int | None = None
    nested_dtype: str | None = None
    nested_offset: float | None = None


def present(settings: Settings, tensors: Tensors) -> Presented:
    if settings.load_in_8bit:
        return present_modules(tensors, "SCB", ("weight", "weight_format"), _int8)
    others = ("weight", "weight.quant_map", STATE, *NESTED)
    return present_modules(tensors, "weight.absmax", others, _nf4)


def _int8(module: Module) -> SourceTensor:
    weight, stored = module.matrix("weight", ("I8",)), module.need("SCB")
    rows, columns = weight.shape
    if stored.shape != (rows,) or stored.dtype != "F32":
        raise TensorMismatch(
            f"{stored.name}: expected F32 [{rows}], found {stored.dtype} {list(stored.shape)}"
        )
    codes = replace(
        weight,
        dtype="U8",
        read=lambda start, stop: weight.read(start, stop).view(np.uint8) ^ np.uint8(128),
        raw=None,
    )
    scales = replace(
        stored,
        shape=(rows, 1),
        read=lambda start, stop: (stored.read(start, stop) / np.float32(LARGEST))[:, None],
        raw=None,
    )
    coded = CodedRows(Grid("symmetric", 8, columns), codes, scales)
    return coded_matrix(f"{module.name}.weight", coded, "bitsandbytes int8")


def _nf4(module: Module) -> SourceTensor:
    weight = module.need("weight")
    state = _state(module.need(STATE))
    size = state.shape[0] * state.shape[1]
    if weight.dtype != "U8" or np.prod(weight.shape) * 2 != size:
        raise TensorMismatch(
            f"{weight.name}: expected {size // 2} bytes for {list(state.shape)}, "
            f"found {weight.dtype} {list(weight.shape)}"
        )
    levels, absmax = _flat(module.need("weight.quant_map")), _absmax(module, state)
    if absmax.size != -(-size // state.blocksize) or levels.size != 16:
        raise TensorMismatch(
            f"{module.name}.weight.absmax: expected {-(-size // state.blocksize)} blocks of "
            f"{state.blocksize} and 16 levels, found {absmax.size} and {levels.size}"
        )
    return replace(
        weight,
        name=f"{module.name}.weight",
        dtype="F32",
        shape=state.shape,
        read=_Levels(weight, state.shape, levels, absmax, state.blocksize),
        raw=None,
        decoded_from="bitsandbytes NF4",
    )


@dataclass(frozen=True)
class _Levels:
    """Reads rows of a matrix that is stored flat, two codes in a byte, the first in the high."""

    weight: SourceTensor
    shape: Shape
    levels: np.ndarray
    absmax: np.ndarray
    block: int

    def __call__(self, start: int, stop: int) -> np.ndarray:
        columns = self.shape[1]
        first, last = start * columns, stop * columns
        stored = self.weight.read(*self._entries(first // 2, -(-last // 2))).reshape(-1)
        codes = np.stack([stored >> 4, stored & 15], axis=-1).reshape(-1)
        begin = first - self._before(first // 2) * 2
        values = self.levels[codes[begin : begin + last - first]]
        blocks = np.arange(first, last) // self.block
        return (values * self.absmax[blocks]).reshape(stop - start, columns)

    def _entries(self, first: int, last: int) -> tuple[int, int]:
        """Entries of the first axis that hold these bytes: all, if there is only one."""
        width = int(np.prod(self.weight.shape[1:]))
        return first // width, -(-last // width)

    def _before(self, byte: int) -> int:
        """Bytes before the entry in which this one lies."""
        width = int(np.prod(self.weight.shape[1:]))
        return byte // width * width


def _absmax(module: Module, state: State) -> np.ndarray:
    stored = module.need("weight.absmax")
    if state.nested_blocksize is None:
        return _flat(stored)
    levels, scales = (_flat(module.need(name)) for name in (NESTED[1], NESTED[0]))
    codes = stored.read(0, stored.shape[0]).reshape(-1)
    if stored.dtype != "U8" or levels.size != 256 or state.nested_offset is None:
        raise TensorMismatch(f"{stored.name}: expected bytes, 256 levels and an offset")
    blocks = np.arange(codes.size) // state.nested_blocksize
    return levels[codes] * scales[blocks] + np.float32(state.nested_offset)


def _flat(tensor: SourceTensor) -> np.ndarray:
    if tensor.dtype != "F32":
        raise TensorMismatch(f"{tensor.name}: expected F32, found {tensor.dtype}")
    return tensor.read(0, tensor.shape[0]).reshape(-1)


def _state(tensor: SourceTensor) -> State:
    text = bytes(tensor.read(0, tensor.shape[0]).tobytes())
    try:
        return State.model_validate(json.loads(text))
    except (ValueError, ValidationError) as error:
        raise TensorMismatch(f"{tensor.name}: expected the state of NF4: {error}") from None


METHOD = Method(name="bitsandbytes", settings=Settings, present=present)
