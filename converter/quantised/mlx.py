"""MLX: affine codes in the engine's own packing, and what else MLX changes in a checkpoint.

`w = code * scale + bias`. A layer is quantised if it has `scales`; the config may give single
layers a width and a group size of their own. Beside that, MLX keeps the taps of depthwise
convolutions as `[channels, taps, 1]`, stacks the experts of a mixture (`switch_mlp`), and adds the
1 to the norms of Qwen3-Next and Qwen3.5, which their own checkpoints leave out.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from masu.converter.checkpoint import SourceTensor
from masu.converter.quantised.codes import CodedRows, Grid, coded_matrix, unpacked
from masu.converter.quantised.method import Method
from masu.converter.quantised.method import Settings as MethodSettings
from masu.converter.quantised.module import (
    Module,
    Presented,
    Tensors,
    need_floats,
    present_modules,
)
from masu.converter.quantised.words import need_words, word_bytes
from masu.specs.errors import TensorMismatch
from masu.specs.stream import FileRange

Bits = Literal[1, 2, 3, 4, 5, 6, 8]


class Width(BaseModel):
    """Of one layer."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    bits: Bits
    group_size: int
    mode: Literal["affine"] = "affine"


class Settings(MethodSettings):
    """`layers` are all other keys of the config: MLX writes the path of a layer as a key."""

    INERT: ClassVar = frozenset({"quant_method"})

    bits: Bits
    group_size: int
    mode: Literal["affine"] = "affine"
    layers: dict[str, Width | bool]

    @model_validator(mode="before")
    @classmethod
    def _gather_layers(cls, values: Any) -> Any:
        own = {key: value for key, value in values.items() if key in cls.model_fields}
        layers = {k: v for k, v in values.items() if isinstance(v, dict | bool) and k not in own}
        rest = {key: value for key, value in values.items() if key not in own | layers}
        return {**own, **rest, "layers": layers}

    def width(self, layer: str) -> Width:
        """Of a quantised layer; False for it in the config says that there is none."""
        found = self.layers.get(layer, True)
        if found is False:
            raise TensorMismatch(f"{layer}.scales: found, and the config says it is not quantised")
        if isinstance(found, Width):
            return found
        return Width(bits=self.bits, group_size=self.group_size)


STACKED = re.compile(r"(.*)\.switch_mlp\.(\w+)\.(\w+)")


def present(settings: Settings, tensors: Tensors) -> Presented:
    entries: dict[str, SourceTensor] = {}
    whole: dict[str, str] = {}
    for name, tensor in tensors.items():
        for entry in _apart(name, tensor):
            entries[entry.name], whole[entry.name] = entry, name
    others = ("weight", "biases")
    found = present_modules(entries, "scales", others, lambda m: _matrix(settings, m, whole))
    stored = {new: (old,) for new, old in whole.items() if new != old and new in found.tensors}
    found.parts = stored | {
        name: tuple(whole[part] for part in parts) for name, parts in found.parts.items()
    }
    return found


def _matrix(settings: Settings, module: Module, whole: dict[str, str]) -> SourceTensor:
    words = module.matrix("weight", ("U32",))
    scales, biases = need_floats(module.need("scales")), need_floats(module.need("biases"))
    width = settings.width(whole[words.name].removesuffix(".weight"))
    columns = scales.shape[-1] * width.group_size
    need_words(words, 1, columns, width.bits)
    stream = word_bytes(words)
    grid = Grid("affine", width.bits, width.group_size)
    codes = unpacked(stream, width.bits, columns)
    coded = CodedRows(grid, codes, scales, biases, stream)
    return coded_matrix(f"{module.name}.weight", coded, f"MLX {width.bits} bits")


def _apart(name: str, tensor: SourceTensor) -> Iterator[SourceTensor]:
    """A tensor as other checkpoints have it: taps turned round, stacked experts one by one."""
    stacked = STACKED.fullmatch(name)
    if stacked is not None and len(tensor.shape) == 3:
        layer, projection, suffix = stacked.groups()
        for index in range(tensor.shape[0]):
            yield _entry(tensor, index, f"{layer}.experts.{index}.{projection}.{suffix}")
    elif len(tensor.shape) == 3 and tensor.shape[2] == 1 and "conv" in name:
        channels, taps, _ = tensor.shape
        read = partial(_reshaped, tensor, (1, taps))
        yield replace(tensor, shape=(channels, 1, taps), read=read)
    else:
        yield tensor


def _entry(tensor: SourceTensor, index: int, name: str) -> SourceTensor:
    """One entry of the first axis; its bytes stay where they are."""
    rows = tensor.shape[1]

    def read(start: int, stop: int) -> Any:
        if not 0 <= start <= stop <= rows:
            raise IndexError(f"{name} has {rows} rows, asked for {start}..{stop}")
        return tensor.read(index, index + 1)[0, start:stop]

    raw = tensor.raw
    if raw is not None:
        size = raw.length // tensor.shape[0]
        raw = FileRange(raw.path, raw.offset + index * size, size)
    return replace(tensor, name=name, shape=tensor.shape[1:], read=read, raw=raw)


def _reshaped(tensor: SourceTensor, rest: tuple[int, ...], start: int, stop: int) -> Any:
    return tensor.read(start, stop).reshape(stop - start, *rest)


METHOD = Method(
    name="mlx",
    settings=Settings,
    present=present,
    refused={"falcon_h1": "mlx-lm folds its multipliers into the weights before it quantises them"},
    whole_norms=frozenset(
        {"qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"}
    ),
)
