"""The JSON header of a safetensors file: what it may say, and what it must say about the bytes."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.errors import ContainerError
from masu.specs.jsonfile import read_json
from masu.specs.tensors import Shape

MAX_HEADER = 100_000_000
"""The format's own limit on the length of the JSON, in bytes."""
METADATA = "__metadata__"
"""The one reserved name: an object of strings beside the tensors."""

_ENTRY_KEYS = {"dtype", "shape", "data_offsets"}
_MAX_AXES = 32  # numpy 1.26's own limit
_LIMIT = 2**63  # of every count; no file or array is larger


@dataclass(frozen=True)
class StoredTensor:
    """One tensor of a file: element type (the file's name for it), shape, and where it lies.

    Attributes:
        offset: first byte, counted from the start of the file.
        length: bytes.
    """

    dtype: str
    shape: Shape
    offset: int
    length: int


def parse_header(
    text: bytes, where: str, data_start: int, file_size: int
) -> tuple[dict[str, StoredTensor], dict[str, str]]:
    """Tensors (in file order) and metadata of a header that accounts for every byte of its file.

    Args:
        text: the JSON, with its padding.
        where: the file, for messages.
        data_start: absolute offset of the first data byte.

    Raises:
        ContainerError: all problems of the first kind that is found.
    """
    if not text.startswith(b"{"):
        raise ContainerError(f"the header of {where} does not begin with an opening brace")
    header = read_json(text, f"the header of {where}", error=ContainerError, max_bytes=MAX_HEADER)
    metadata = header.pop(METADATA, {})
    _refuse(where, "malformed metadata", _metadata_problems(metadata))
    _refuse(where, "malformed tensor entries", _entry_problems(header))
    tensors = _in_file_order(header, data_start)
    _refuse(where, "tensors that do not follow one another", _gaps(tensors, data_start))
    _check_end(where, tensors, data_start, file_size)
    return tensors, metadata


def _refuse(where: str, kind: str, problems: Iterator[str]) -> None:
    found = list(problems)
    if found:
        raise ContainerError(f"{where} has {kind}", problems=found)


def _metadata_problems(metadata: Any) -> Iterator[str]:
    if not isinstance(metadata, dict):
        yield f"{METADATA}: expected an object of strings, found {_shown(metadata)}"
        return
    for key, value in metadata.items():
        if not isinstance(value, str):
            yield f"{METADATA}.{key}: expected a string, found {_shown(value)}"


def _entry_problems(entries: Mapping[str, Any]) -> Iterator[str]:
    for name, entry in entries.items():
        problem = _entry_problem(entry)
        if problem is not None:
            yield f"{name!r}: {problem}"


def _entry_problem(entry: Any) -> str | None:
    if not isinstance(entry, dict) or entry.keys() != _ENTRY_KEYS:
        return f"expected an object of dtype, shape and data_offsets, found {_shown(entry)}"
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in NUMPY_DTYPES:
        return f"unknown dtype {_shown(dtype)}; known are {', '.join(NUMPY_DTYPES)}"
    if not _are_counts(shape):
        return f"shape: expected a list of whole numbers from 0, found {_shown(shape)}"
    if not _are_counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        return f"data_offsets: expected [begin, end] with begin <= end, found {_shown(offsets)}"
    return _size_problem(dtype, shape, offsets[1] - offsets[0])


def _size_problem(dtype: str, shape: list[int], length: int) -> str | None:
    itemsize = NUMPY_DTYPES[dtype].itemsize
    # Zeros count as ones, because numpy refuses [0, 2**63] as well.
    if len(shape) > _MAX_AXES or math.prod(size or 1 for size in shape) * itemsize >= _LIMIT:
        return f"shape {_shown(shape)} is larger than any array"
    expected = math.prod(shape) * itemsize
    if length != expected:
        return f"{dtype} {_shown(shape)} takes {expected} bytes, data_offsets span {length}"
    return None


def _are_counts(value: Any) -> bool:
    """Whether a JSON value is a list of whole numbers from 0; `true` and `4.0` are not."""
    return isinstance(value, list) and all(
        type(item) is int and 0 <= item < _LIMIT for item in value
    )


def _in_file_order(entries: Mapping[str, Any], data_start: int) -> dict[str, StoredTensor]:
    # A tensor without elements lies at the border of two others, so it sorts before its equal.
    ordered = sorted(entries.items(), key=lambda item: item[1]["data_offsets"])
    return {
        name: StoredTensor(
            dtype=entry["dtype"],
            shape=tuple(entry["shape"]),
            offset=data_start + entry["data_offsets"][0],
            length=entry["data_offsets"][1] - entry["data_offsets"][0],
        )
        for name, entry in ordered
    }


def _gaps(tensors: Mapping[str, StoredTensor], data_start: int) -> Iterator[str]:
    """Each place where a tensor does not begin at the end of those before it."""
    end = data_start
    for name, tensor in tensors.items():
        if tensor.offset > end:
            yield f"{name!r}: {tensor.offset - end} bytes before it belong to no tensor"
        elif tensor.offset < end:
            yield f"{name!r}: overlaps the tensor before it by {end - tensor.offset} bytes"
        end = max(end, tensor.offset + tensor.length)


def _check_end(
    where: str, tensors: Mapping[str, StoredTensor], data_start: int, file_size: int
) -> None:
    end = max((tensor.offset + tensor.length for tensor in tensors.values()), default=data_start)
    if end > file_size:
        first = next(n for n, t in tensors.items() if t.offset + t.length > file_size)
        raise ContainerError(
            f"{where} is truncated: its tensors take {end:,} bytes, the file has {file_size:,}"
            f" (first incomplete tensor: {first!r})",
            hint="copy or download the file again",
        )
    if end < file_size:
        raise ContainerError(
            f"{where} has {file_size - end:,} bytes after its last tensor that belong to no tensor"
        )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
