"""The blocks of a GGUF file whose codes the engine has a format for: Q4_0, Q4_1 and Q8_0.

All have 32 columns. Q4_0: a scale, then 16 bytes, the first half of the codes in the low and the
second in the high bits; `w = (code - 8) * scale`. Q4_1 has a minimum after the scale;
`w = code * scale + minimum`. Q8_0: a scale and signed bytes; `w = code * scale`. Scales are F16 and
may be negative. Source: ggml's `ggml-common.h` and `ggml-quants.c`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from masu.converter.checkpoint import SourceTensor
from masu.converter.quantised.codes import CodedRows, Grid, Kind, coded_matrix

BLOCK = 32

Blocks = Callable[[int, int], np.ndarray]
"""Rows `start..stop` as U8 `[rows, bytes]`."""


@dataclass(frozen=True)
class BlockType:
    """Parameters are F16, first in the block; `size` is that of a block in bytes."""

    kind: Kind
    bits: int
    size: int
    codes: Callable[[np.ndarray], np.ndarray]


def _nibbles(stored: np.ndarray) -> np.ndarray:
    return np.concatenate([stored & 15, stored >> 4], axis=-1)


def _unsigned(stored: np.ndarray) -> np.ndarray:
    return stored ^ np.uint8(128)


KEPT: Mapping[str, BlockType] = {
    "Q4_0": BlockType("symmetric", 4, 2 + 16, _nibbles),
    "Q4_1": BlockType("affine", 4, 4 + 16, _nibbles),
    "Q8_0": BlockType("symmetric", 8, 2 + 32, _unsigned),
}


def with_codes(tensor: SourceTensor, kind: str, blocks: Blocks) -> SourceTensor:
    """A matrix of one of these types with its codes; any other tensor as it is."""
    if kind not in KEPT or len(tensor.shape) != 2:
        return tensor
    found = KEPT[kind]
    rows, columns = tensor.shape
    groups = columns // BLOCK
    parameters = 1 if found.kind == "symmetric" else 2

    def codes(start: int, stop: int) -> np.ndarray:
        stored = blocks(start, stop).reshape(stop - start, groups, found.size)
        return found.codes(stored[..., 2 * parameters :]).reshape(stop - start, columns)

    def plane(place: int) -> SourceTensor:
        def read(start: int, stop: int) -> np.ndarray:
            stored = blocks(start, stop).reshape(stop - start, groups, found.size)
            chosen = np.ascontiguousarray(stored[..., 2 * place : 2 * place + 2])
            return chosen.view("<f2")[..., 0]

        return replace(tensor, dtype="F16", shape=(rows, groups), read=read, raw=None)

    coded = CodedRows(
        Grid(found.kind, found.bits, BLOCK),
        replace(tensor, dtype="U8", read=codes, raw=None),
        plane(0),
        plane(1) if found.kind == "affine" else None,
    )
    return coded_matrix(tensor.name, coded, kind)
