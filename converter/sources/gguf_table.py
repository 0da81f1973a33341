"""The table of tensors of a GGUF file: known types, whole blocks, and every byte accounted for."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import gguf
import numpy as np

from masu.specs.errors import SourceError
from masu.specs.tensors import Shape

_LIMIT = 2**63  # of every count; no file is larger

PLAIN = {"F32": "F32", "F16": "F16", "BF16": "BF16"}
"""Types that are stored as they are, and safetensors' name for each."""


class TensorEntry(NamedTuple):
    """One line of the table as it stands in the file, unchecked; `offset` is within the data."""

    name: str
    shape: Shape
    type_number: int
    offset: int


@dataclass(frozen=True)
class GGUFTensor:
    """One tensor: its shape with the slowest axis first, and where its bytes lie.

    Attributes:
        offset: first byte, counted from the start of the file.
        length: bytes.
    """

    name: str
    kind: gguf.GGMLQuantizationType
    shape: Shape
    offset: int
    length: int

    @property
    def plain(self) -> str | None:
        """Safetensors' name of the type, if it is one of the plain floats."""
        return PLAIN.get(self.kind.name)


def check_table(
    entries: Sequence[TensorEntry], start: int, alignment: int, file_size: int, where: str
) -> dict[str, GGUFTensor]:
    """Every entry with a type that can be decoded; tensors follow one another up to the end.

    Args:
        start: absolute offset of the first data byte.
        where: the file, for messages.

    Raises:
        SourceError: all problems of the first kind that is found.
    """
    _refuse(where, "tensors that cannot be read", _entry_problems(entries))
    tensors = [_sized(entry, start) for entry in entries]
    _refuse(where, "tensors out of their places", _misplaced(tensors, start, alignment))
    # Without tensors, nothing is missing if the padding before the data is.
    end = max((tensor.offset + tensor.length for tensor in tensors), default=min(start, file_size))
    if end > file_size:
        first = next(tensor for tensor in tensors if tensor.offset + tensor.length > file_size)
        raise SourceError(
            f"{where} is truncated: its tensors end at byte {end:,}, the file has {file_size:,} "
            f"(first incomplete tensor: {first.name})",
            hint="copy or download the file again",
        )
    if file_size > padded(end, alignment):
        raise SourceError(f"{where} has {file_size - end:,} bytes that belong to no tensor")
    return {tensor.name: tensor for tensor in tensors}


def _refuse(where: str, kind: str, problems: Iterator[str]) -> None:
    found = list(problems)
    if found:
        raise SourceError(f"{where} has {kind}:", problems=found)


def _entry_problems(entries: Sequence[TensorEntry]) -> Iterator[str]:
    seen: set[str] = set()
    for entry in entries:
        problem = "its name appears twice" if entry.name in seen else _entry_problem(entry)
        seen.add(entry.name)
        if problem is not None:
            yield f"{entry.name}: {problem}"


def _entry_problem(entry: TensorEntry) -> str | None:
    try:
        kind = gguf.GGMLQuantizationType(entry.type_number)
    except ValueError:
        return f"unknown type number {entry.type_number}"
    if not decodable(kind):
        return f"no decoder for the type {kind.name}"
    if 0 in entry.shape or math.prod(entry.shape) >= _LIMIT:
        return f"the shape {list(entry.shape)} is that of no weight"
    block, _ = gguf.GGML_QUANT_SIZES[kind]
    if entry.shape[-1] % block:
        return f"rows of {entry.shape[-1]} values are not whole blocks of {block} ({kind.name})"
    return None


@cache
def decodable(kind: gguf.GGMLQuantizationType) -> bool:
    """Whether the gguf library decodes this type; it has no list, so it is asked for one block."""
    if kind.name in PLAIN:
        return True
    _, size = gguf.GGML_QUANT_SIZES[kind]
    try:
        gguf.dequantize(np.zeros((1, size), np.uint8), kind)
    except NotImplementedError:
        return False
    return True


def _sized(entry: TensorEntry, start: int) -> GGUFTensor:
    kind = gguf.GGMLQuantizationType(entry.type_number)
    block, size = gguf.GGML_QUANT_SIZES[kind]
    length = math.prod(entry.shape) // block * size
    return GGUFTensor(entry.name, kind, entry.shape, start + entry.offset, length)


def _misplaced(tensors: Sequence[GGUFTensor], start: int, alignment: int) -> Iterator[str]:
    """Each tensor that does not begin where the one before it, padded, ends (so none overlap)."""
    expected = start
    for tensor in tensors:
        if tensor.offset != expected:
            yield f"{tensor.name}: expected at byte {expected:,}, found at {tensor.offset:,}"
        expected = padded(tensor.offset + tensor.length, alignment)


def padded(place: int, alignment: int) -> int:
    """The first multiple of the alignment from `place` on."""
    return -(-place // alignment) * alignment
