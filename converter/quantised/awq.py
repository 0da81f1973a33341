"""AWQ in the layout of AutoAWQ's `gemm` kernels: 4-bit codes with zero points, `[in, out]`.

A word holds the codes of eight neighbouring output channels, in the order 0, 2, 4, 6, 1, 3, 5, 7
from its low bits up. `w = (code - zero) * scale`.
"""

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import AliasChoices, Field

from masu.converter.checkpoint import SourceTensor
from masu.converter.quantised.codes import CodedRows, Grid, coded_matrix
from masu.converter.quantised.method import Method
from masu.converter.quantised.method import Settings as MethodSettings
from masu.converter.quantised.module import Module, Presented, Tensors, present_modules
from masu.converter.quantised.words import need_words, some_columns, transposed_plane
from masu.specs.errors import TensorMismatch
from masu.specs.formats.packing import unpack

BITS = 4
PER_WORD = 8
PLACES = [0, 4, 1, 5, 2, 6, 3, 7]
"""Where in a word the code of each of its eight channels stands."""


class Settings(MethodSettings):
    INERT: ClassVar = frozenset(
        {"backend", "do_fuse", "exllama_config", "fuse_max_seq_len", "modules_to_fuse"}
        | {"modules_to_not_convert", "desc_act", "lm_head", "meta", "pack_dtype"}
    )

    quant_method: Literal["awq"]
    bits: Literal[4] = Field(validation_alias=AliasChoices("bits", "w_bit"))
    group_size: int = Field(validation_alias=AliasChoices("group_size", "q_group_size"))
    version: Literal["gemm", "GEMM"] = Field(
        "gemm", validation_alias=AliasChoices("version", "checkpoint_format", "format")
    )
    zero_point: bool = True


def present(settings: Settings, tensors: Tensors) -> Presented:
    return present_modules(
        tensors, "qweight", ("qzeros", "scales"), lambda module: _matrix(settings, module)
    )


def _matrix(settings: Settings, module: Module) -> SourceTensor:
    words = module.matrix("qweight", ("I32",))
    scales = module.matrix("scales", ("F16", "BF16", "F32"))
    columns, rows = words.shape[0], scales.shape[1]
    need_words(words, 1, rows, BITS)
    group = columns if settings.group_size == -1 else settings.group_size
    if settings.zero_point != ("qzeros" in module.tensors):
        found = "found" if "qzeros" in module.tensors else "not found"
        raise TensorMismatch(
            f"{module.name}.qzeros: {found}, and the config says zero_point {settings.zero_point}"
        )
    zeros = None
    if settings.zero_point:
        zeros = module.matrix("qzeros", ("I32",))
        need_words(zeros, 1, rows, BITS)
        zeros = _codes(zeros, rows)
    grid = Grid("asymmetric" if settings.zero_point else "symmetric", BITS, group)
    coded = CodedRows(grid, _codes(words, rows), transposed_plane(scales), zeros)
    return coded_matrix(f"{module.name}.weight", coded, "AWQ gemm")


def _codes(words: SourceTensor, rows: int) -> SourceTensor:
    """`[columns, words]` as U8 `[rows, columns]`."""
    columns = words.shape[0]

    def read(start: int, stop: int) -> np.ndarray:
        first = start // PER_WORD
        found = some_columns(words, first, -(-stop // PER_WORD))
        stream = np.ascontiguousarray(found).view(np.uint8)
        codes = unpack(stream, BITS, found.shape[1] * PER_WORD)
        ordered = codes.reshape(columns, -1, PER_WORD)[..., PLACES].reshape(columns, -1)
        return ordered[:, start - first * PER_WORD : stop - first * PER_WORD].T

    return replace(words, dtype="U8", shape=(rows, columns), read=read, raw=None)


METHOD = Method(name="awq", settings=Settings, present=present)
