"""GPTQ in AutoGPTQ's layout: codes packed along the input channels, in either convention of zeros.

`checkpoint_format` `gptq` (v1) stores each zero point minus one, `gptq_v2` as it is. With
activation order, input channel i belongs to group `g_idx[i]`: neighbours then have parameters of
their own each, which no format of the engine holds, and the matrix is decoded.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import AliasChoices, Field

from masu.converter.checkpoint import SourceTensor
from masu.converter.quantised.codes import CodedRows, Grid, coded_matrix, unpacked
from masu.converter.quantised.method import Method
from masu.converter.quantised.method import Settings as MethodSettings
from masu.converter.quantised.module import Module, Presented, Tensors, present_modules
from masu.converter.quantised.words import (
    column_bytes,
    fixed_plane,
    need_words,
    row_codes,
    transposed_plane,
)
from masu.specs.errors import TensorMismatch

V1, V2 = "gptq", "gptq_v2"


class Settings(MethodSettings):
    INERT: ClassVar = frozenset(
        {"backend", "batch_size", "block_name_to_quantize", "cache_block_outputs", "damp_percent"}
        | {"dataset", "disable_exllama", "exllama_config", "is_marlin_format", "lm_head"}
        | {"max_input_length", "meta", "model_file_base_name", "model_name_or_path", "model_seqlen"}
        | {"module_name_preceding_first_block", "modules_in_block_to_quantize", "pad_token_id"}
        | {"static_groups", "tokenizer", "true_sequential", "use_cuda_fp16", "use_exllama"}
        | {"act_group_aware", "modules_to_not_convert"}
    )

    quant_method: Literal["gptq"]
    bits: Literal[2, 3, 4, 8]
    group_size: int
    sym: bool
    desc_act: bool = False
    checkpoint_format: Literal["gptq", "gptq_v2"] = Field(
        V1, validation_alias=AliasChoices("checkpoint_format", "format")
    )
    pack_dtype: Literal["int32"] = "int32"
    version: None = None


def present(settings: Settings, tensors: Tensors) -> Presented:
    others = ("qzeros", "scales", "g_idx")
    return present_modules(tensors, "qweight", others, lambda module: _matrix(settings, module))


def _matrix(settings: Settings, module: Module) -> SourceTensor:
    words = module.matrix("qweight", ("I32",))
    scales = module.matrix("scales", ("F16", "BF16", "F32"))
    columns, bits = words.shape[0] * 32 // settings.bits, settings.bits
    group = columns if settings.group_size == -1 else settings.group_size
    zeros = _zero_points(settings, module, scales.shape[1])
    stream = column_bytes(words)
    coded = CodedRows(
        Grid("symmetric" if settings.sym else "asymmetric", bits, group),
        unpacked(stream, bits, columns),
        transposed_plane(scales),
        None if settings.sym else fixed_plane(module.need("qzeros"), zeros),
        stream,
    )
    order = _order(settings, module, columns, scales.shape[0])
    if order is not None and (group <= 0 or (order != np.arange(columns) // group).any()):
        return _decoded(module, coded, order, zeros)
    return coded_matrix(f"{module.name}.weight", coded, f"GPTQ {settings.checkpoint_format}")


def _zero_points(settings: Settings, module: Module, rows: int) -> np.ndarray:
    """U8 `[rows, groups]`, checked against what the config says of them."""
    stored = module.matrix("qzeros", ("I32",))
    need_words(stored, 1, rows, settings.bits)
    zeros = row_codes(stored, settings.bits, rows)
    most, middle = 2**settings.bits - 1, 2 ** (settings.bits - 1)
    if settings.checkpoint_format == V1:
        if not settings.sym and (zeros == most).any():
            raise TensorMismatch(
                f"{stored.name}: a stored zero point of {most} in the format {V1} is either "
                f"{most + 1} or a 0 that was stored as -1; a checkpoint in {V2} says which"
            )
        zeros = (zeros + 1).astype(np.uint8)
    if settings.sym and (zeros != middle).any():
        found = sorted({int(value) for value in np.unique(zeros)} - {middle})
        raise TensorMismatch(
            f"{stored.name}: sym true and checkpoint_format {settings.checkpoint_format} want "
            f"every zero point to be {middle}, found {', '.join(map(str, found[:4]))}: "
            "one of the two labels is wrong"
        )
    return zeros.T


def _order(settings: Settings, module: Module, columns: int, groups: int) -> np.ndarray | None:
    """The group of every input channel; None where the file has none and needs none."""
    if "g_idx" not in module.tensors:
        if settings.desc_act:
            module.need("g_idx")
        return None
    stored = module.tensors["g_idx"]
    order = stored.read(0, stored.shape[0])
    if order.shape != (columns,) or order.min() < 0 or order.max() >= groups:
        raise TensorMismatch(
            f"{stored.name}: expected {columns} groups below {groups}, found {list(order.shape)} "
            f"in {order.min()}..{order.max()}"
        )
    return order


def _decoded(
    module: Module, coded: CodedRows, order: np.ndarray, zeros: np.ndarray
) -> SourceTensor:
    return replace(
        coded.codes,
        name=f"{module.name}.weight",
        dtype="F32",
        read=_in_order(coded, order, zeros),
        decoded_from="GPTQ with activation order",
    )


def _in_order(
    coded: CodedRows, order: np.ndarray, zeros: np.ndarray
) -> Callable[[int, int], np.ndarray]:
    def read(start: int, stop: int) -> np.ndarray:
        codes = coded.codes.read(start, stop).astype(np.float32)
        scales = coded.scales.read(start, stop).astype(np.float32)[:, order]
        return (codes - zeros[start:stop].astype(np.float32)[:, order]) * scales

    return read


METHOD = Method(name="gptq", settings=Settings, present=present)
