"""Codes in little-endian 32-bit words, along rows or along columns of the stored array."""

from dataclasses import replace

import numpy as np

from masu.converter.checkpoint import SourceTensor
from masu.specs.errors import TensorMismatch
from masu.specs.formats.packing import packed_length, unpack

STRIP = 2**22
"""Words read at a time while columns are picked."""

WORD = 4


def word_bytes(words: SourceTensor) -> SourceTensor:
    """`[rows, words]` as U8 `[rows, bytes]`; the bytes stay."""
    rows, count = words.shape
    return replace(
        words,
        dtype="U8",
        shape=(rows, count * WORD),
        read=lambda start, stop: _as_bytes(words.read(start, stop)),
    )


def column_bytes(words: SourceTensor) -> SourceTensor:
    """`[words, columns]` as U8 `[columns, bytes]`: what stands below each other in a column."""
    count, columns = words.shape
    return replace(
        words,
        dtype="U8",
        shape=(columns, count * WORD),
        read=lambda start, stop: _as_bytes(some_columns(words, start, stop).T),
        raw=None,
    )


def some_columns(tensor: SourceTensor, start: int, stop: int) -> np.ndarray:
    """Columns `start..stop` of a matrix, of which a strip of rows is in memory at a time."""
    rows, columns = tensor.shape
    step = max(1, STRIP // max(1, columns))
    strips = (tensor.read(low, min(low + step, rows)) for low in range(0, rows, step))
    return np.concatenate([strip[:, start:stop].copy() for strip in strips])


def row_codes(words: SourceTensor, bits: int, count: int) -> np.ndarray:
    """All codes of an array whose rows are bit streams: `[rows, count]`."""
    return unpack(_as_bytes(words.read(0, words.shape[0])), bits, count)


def need_words(tensor: SourceTensor, axis: int, count: int, bits: int) -> None:
    """Raise TensorMismatch unless an axis has the words that so many codes fill."""
    expected = -(-packed_length(count, bits) // WORD)
    if tensor.shape[axis] != expected:
        raise TensorMismatch(
            f"{tensor.name}: expected {expected} words for {count} codes of {bits} bits along "
            f"axis {axis}, found {list(tensor.shape)}"
        )


def transposed_plane(tensor: SourceTensor) -> SourceTensor:
    """`[groups, rows]` as `[rows, groups]`; such planes are small and read whole."""
    groups, rows = tensor.shape
    return replace(
        tensor,
        shape=(rows, groups),
        read=lambda start, stop: tensor.read(0, groups)[:, start:stop].T,
        raw=None,
    )


def fixed_plane(tensor: SourceTensor, values: np.ndarray) -> SourceTensor:
    """Zero points that have been read already, U8 `[rows, groups]`."""
    return replace(
        tensor,
        dtype="U8",
        shape=values.shape,
        read=lambda start, stop: values[start:stop],
        raw=None,
    )


def _as_bytes(words: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(words).view(np.uint8)
