"""compressed-tensors: `pack-quantized` codes are kept, `float-quantized` numbers are decoded.

A packed code is the signed integer plus `2 ** (bits - 1)`, in a little-endian bit stream along the
input channels, as the engine has it; a zero point is packed alike, along the output channels.
"""

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, model_validator

from masu.converter.checkpoint import SourceTensor
from masu.converter.quantised import fp8
from masu.converter.quantised.codes import CodedRows, Grid, coded_matrix, unpacked
from masu.converter.quantised.method import Method
from masu.converter.quantised.method import Settings as MethodSettings
from masu.converter.quantised.module import Module, Presented, Tensors, present_modules
from masu.converter.quantised.words import (
    column_bytes,
    fixed_plane,
    need_words,
    word_bytes,
)
from masu.specs.errors import TensorMismatch
from masu.specs.formats.packing import unpack


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Weights(_Part):
    """How the weights of a group of layers are quantised."""

    num_bits: Literal[4, 8]
    type: Literal["int", "float"]
    symmetric: bool = True
    strategy: Literal["group", "channel", "tensor", "block"]
    group_size: int | None = None
    block_structure: tuple[int, int] | None = None
    actorder: Literal["static", "weight", False] | None = None
    """`static` (once `weight`) orders the search only; the stored channels stay in place."""
    dynamic: Literal[False] = False
    observer: Any = None
    observer_kwargs: Any = None
    scale_dtype: Any = None
    zp_dtype: Any = None

    @property
    def stored(self) -> dict[str, Any]:
        """All but how the codes were found."""
        return self.model_dump(exclude={"observer", "observer_kwargs"})


class Scheme(_Part):
    """One of `config_groups`. Activations are not quantised by the package, whatever it says."""

    weights: Weights
    targets: tuple[str, ...]
    format: Literal["pack-quantized", "float-quantized"] | None = None
    input_activations: Any = None
    output_activations: Literal[None] = None


class Settings(MethodSettings):
    INERT: ClassVar = frozenset({"global_compression_ratio", "ignore", "version"})

    quant_method: Literal["compressed-tensors"]
    format: Literal["pack-quantized", "float-quantized"]
    quantization_status: Literal["compressed", "frozen"] = "compressed"
    config_groups: dict[str, Scheme]
    kv_cache_scheme: Literal[None] = None
    sparsity_config: dict[str, Any] | None = None
    transform_config: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _is_one_scheme(self) -> "Settings":
        """Which layer is in which group is told by patterns; one scheme needs none of them."""
        schemes = [scheme.weights.stored for scheme in self.config_groups.values()]
        if not schemes or any(other != schemes[0] for other in schemes):
            raise ValueError("expected one scheme for all quantised layers")
        weights = self.weights
        if (self.format == "pack-quantized") != (weights.type == "int"):
            raise ValueError(f"{self.format} of type {weights.type} is not converted")
        if weights.type == "int" and weights.strategy not in ("group", "channel"):
            raise ValueError(f"pack-quantized by {weights.strategy} is not converted")
        if (weights.strategy == "group") != (weights.group_size is not None):
            raise ValueError("expected a group_size, and only with the strategy group")
        if weights.type == "float" and (weights.num_bits != 8 or not weights.symmetric):
            raise ValueError("expected symmetric floats of 8 bits")
        if self.sparsity_config or self.transform_config:
            raise ValueError("sparsity_config and transform_config are not converted")
        return self

    @property
    def weights(self) -> Weights:
        return next(iter(self.config_groups.values())).weights


def present(settings: Settings, tensors: Tensors) -> Presented:
    weights = settings.weights
    if weights.type == "float":
        others = ("weight", "input_scale", "weight_zero_point")
        blocks = weights.block_structure if weights.strategy == "block" else None
        return present_modules(
            tensors, "weight_scale", others, lambda m: fp8.scaled(m, "weight_scale", blocks)
        )
    others = ("weight_scale", "weight_zero_point", "weight_shape")
    return present_modules(tensors, "weight_packed", others, lambda m: _matrix(weights, m))


def _matrix(weights: Weights, module: Module) -> SourceTensor:
    words = module.matrix("weight_packed", ("I32",))
    scales = module.matrix("weight_scale", ("F16", "BF16", "F32"))
    shape = module.need("weight_shape")
    rows, columns = (int(size) for size in shape.read(0, 2))
    if words.shape[0] != rows:
        raise TensorMismatch(f"{words.name}: expected {rows} rows, found {list(words.shape)}")
    need_words(words, 1, columns, weights.num_bits)
    group = columns if weights.group_size is None else weights.group_size
    grid = Grid("symmetric" if weights.symmetric else "asymmetric", weights.num_bits, group)
    stream = word_bytes(words)
    zeros = None if weights.symmetric else _zero_points(module, weights.num_bits, rows)
    codes = unpacked(stream, weights.num_bits, columns)
    packed = stream if columns * weights.num_bits == stream.shape[1] * 8 else None
    coded = CodedRows(grid, codes, scales, zeros, packed)
    return coded_matrix(f"{module.name}.weight", coded, "compressed-tensors pack-quantized")


def _zero_points(module: Module, bits: int, rows: int) -> SourceTensor:
    stored = module.matrix("weight_zero_point", ("I32",))
    need_words(stored, 0, rows, bits)
    by_group = column_bytes(stored)
    codes = unpack(by_group.read(0, by_group.shape[0]), bits, rows)
    return fixed_plane(stored, np.ascontiguousarray(codes.T))


METHOD = Method(name="compressed-tensors", settings=Settings, present=present)
