"""MXFP4 as checkpoints lay it out: blocks of 16 bytes, and a byte of scale for each.

A block holds 32 codes, the first of every pair in the low bits: the engine's own order, so the
bytes are kept. What changes is their shape, and the order of rows.
"""

from dataclasses import replace

import numpy as np

from masu.converter.checkpoint import SourceTensor
from masu.converter.views import changed, mismatch
from masu.specs.formats import MicrofloatSpec

BLOCK = 32


def mxfp4(group_size: int = BLOCK) -> MicrofloatSpec:
    return MicrofloatSpec(
        type="MicrofloatSpec",
        bits=4,
        group_size=group_size,
        scale_mode="mxfp4",
        layout="output_input",
    )


def codes(blocks: SourceTensor) -> SourceTensor:
    """`[experts, rows, blocks, 16]` as `[experts, rows, bytes]`; the bytes stay."""
    if len(blocks.shape) != 4 or blocks.shape[3] != BLOCK // 2:
        raise mismatch(blocks, f"[experts, rows, blocks, {BLOCK // 2}]")
    experts, rows, count, width = blocks.shape
    return replace(
        blocks,
        shape=(experts, rows, count * width),
        read=lambda start, stop: blocks.read(start, stop).reshape(-1, rows, count * width),
    )


def scales(tensor: SourceTensor) -> SourceTensor:
    """The bytes of the scales, `exponent + 127`, whether they are called numbers or E8M0 floats."""
    if tensor.dtype != "F8_E8M0":
        return tensor
    return replace(
        tensor, dtype="U8", read=lambda start, stop: tensor.read(start, stop).view(np.uint8)
    )


def halved(tensor: SourceTensor) -> SourceTensor:
    """Scales of blocks cut in two: each one twice along the last axis."""
    *lead, count = tensor.shape
    return changed(tensor, (*lead, 2 * count), lambda values: np.repeat(values, 2, axis=-1))
