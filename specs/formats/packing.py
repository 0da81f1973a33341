"""Codes of 1 to 8 bits in bytes: one little-endian bit stream along the last axis.

Code `i` occupies bits `[i * bits, (i + 1) * bits)` of the stream, so the first code stands in the
lowest bits of the first byte; the last byte is filled up with zeros. MLX's little-endian uint32
words are the same stream.
"""

from typing import Any

import numpy as np

from masu.specs.tensors import Shape


def packed_length(count: int, bits: int) -> int:
    """Bytes that `count` codes take."""
    return -(-count * bits // 8)


def packed_shape(shape: Shape, bits: int) -> Shape:
    """The shape of the stored bytes of an array of codes."""
    return (*shape[:-1], packed_length(shape[-1], bits))


def pack(codes: Any, bits: int, xp: Any = np) -> Any:
    """uint8 codes `[..., count]`, each below `2 ** bits`, as bytes `[..., packed_length]`."""
    if 8 % bits:
        return xp.packbits(_bits_of(codes, bits, xp), axis=-1, bitorder="little")
    per_byte = 8 // bits
    missing = -codes.shape[-1] % per_byte
    if xp is np and bits == 4 and not missing:
        return _pairs_joined(codes)
    padded = xp.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, missing)])
    return _joined([padded[..., lane::per_byte] for lane in range(per_byte)], bits)


def unpack(packed: Any, bits: int, count: int, xp: Any = np) -> Any:
    """The first `count` codes of each row of bytes `[..., packed_length]`, as uint8."""
    if bits == 8:
        return packed[..., :count]
    if 8 % bits:
        return _across_bytes(packed, bits, count, xp)
    mask = (1 << bits) - 1
    lanes = xp.stack([packed >> shift & mask for shift in range(0, 8, bits)], axis=-1)
    return lanes.reshape(*packed.shape[:-1], -1)[..., :count]


def _pairs_joined(codes: np.ndarray) -> np.ndarray:
    """Two 4-bit codes to a byte, each pair at once as a little-endian 16-bit word."""
    words = np.ascontiguousarray(codes).view("<u2")
    return (words | words >> 4).astype(np.uint8)


def _across_bytes(packed: Any, bits: int, count: int, xp: Any) -> Any:
    """`unpack` for widths that straddle bytes, through one array element per bit."""
    stream = xp.unpackbits(packed, axis=-1, count=count * bits, bitorder="little")
    stream = stream.reshape(*packed.shape[:-1], count, bits)
    return _joined([stream[..., place] for place in range(bits)], 1)


def _bits_of(codes: Any, bits: int, xp: Any) -> Any:
    """The bits of every code, lowest first: `[..., count * bits]`."""
    stream = xp.stack([codes >> place & 1 for place in range(bits)], axis=-1)
    return stream.reshape(*codes.shape[:-1], -1)


def _joined(lanes: list[Any], bits: int) -> Any:
    """Lane `i` shifted to bit `i * bits`, all in one byte."""
    joined = lanes[0]
    for place, lane in enumerate(lanes[1:], start=1):
        joined = joined | lane << place * bits
    return joined
