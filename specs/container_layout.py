"""Lays out model.safetensors: the header and the place of every array, before any byte is there."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from masu.specs.container_header import MAX_HEADER, METADATA
from masu.specs.dtypes import NUMPY_DTYPES, alignment
from masu.specs.errors import OutputError
from masu.specs.tensors import ArraySpec


@dataclass(frozen=True)
class FileLayout:
    """Where everything goes.

    Attributes:
        header: all bytes before the data: the length and the padded JSON.
        offsets: first byte of each array, from the start of the file, in file order.
        size: bytes of the whole file.
    """

    header: bytes
    offsets: Mapping[str, int]
    size: int


def plan_layout(arrays: Mapping[str, ArraySpec], metadata: Mapping[str, str]) -> FileLayout:
    """Arrays by descending alignment, then name, and the JSON spaced, as lalamo 0.17.0 has them.

    There are two deviations, and a reader sees neither: metadata keys are sorted (lalamo's order
    changes from run to run), and the header is padded until the data begin at a multiple of 64.

    Raises:
        OutputError: the reserved name, or a header longer than readers accept.
    """
    if METADATA in arrays:
        raise OutputError(f"a tensor is named {METADATA!r}, which the file format reserves")
    begins, entries, end = {}, {}, 0
    for name in sorted(arrays, key=lambda name: (-alignment(arrays[name].dtype), name)):
        begins[name], end = end, end + stored_bytes(arrays[name])
        entries[name] = _entry(arrays[name], begins[name], end)
    header = _header(entries, metadata)
    offsets = {name: len(header) + begin for name, begin in begins.items()}
    return FileLayout(header, offsets, len(header) + end)


def stored_bytes(array: ArraySpec) -> int:
    """The bytes that an array takes in the file."""
    return math.prod(array.shape) * NUMPY_DTYPES[array.dtype].itemsize


def _entry(array: ArraySpec, begin: int, end: int) -> dict[str, Any]:
    return {"dtype": array.dtype, "shape": list(array.shape), "data_offsets": [begin, end]}


def _header(entries: Mapping[str, Any], metadata: Mapping[str, str]) -> bytes:
    described = {METADATA: dict(sorted(metadata.items()))} if metadata else {}
    text = json.dumps({**described, **entries}).encode("ascii")
    # Data at a multiple of 64: a runtime maps the file and uses the weights in place, and JAX's
    # device_put aliases only addresses aligned to 64 bytes; any other it copies, all of the model.
    text += b" " * (-(8 + len(text)) % 64)
    if len(text) > MAX_HEADER:
        raise OutputError(
            f"the header of model.safetensors would take {len(text):,} bytes; readers accept"
            f" {MAX_HEADER:,}"
        )
    return len(text).to_bytes(8, "little") + text
