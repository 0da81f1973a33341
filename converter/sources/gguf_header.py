"""The header of a GGUF file, read within bounds: its metadata and the table of its tensors.

The gguf library's own reader makes an array per metadata element and follows every count and
length it finds. A vocabulary of 262,144 tokens takes it 11 seconds and 750 MB, and a hostile count
never ends. This reader checks each count against the bytes that are left. What a type is called
and how its blocks are sized still comes from the library.
"""

import hashlib
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from masu.converter.sources.gguf_table import GGUFTensor, TensorEntry, check_table, padded
from masu.specs.errors import SourceError, SourceNotFound

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_HEADER = 2**26
"""Bytes; about five times the largest in use (a vocabulary of 262,144 tokens and its merges)."""

_DEFAULT_ALIGNMENT = 32
_MAX_AXES = 4
_STRING, _ARRAY = 8, 9
# Value types by their numbers in the file (GGUF specification, "gguf_metadata_value_type").
_NUMBERS: Mapping[int, np.dtype] = {
    0: np.dtype("u1"),
    1: np.dtype("i1"),
    2: np.dtype("<u2"),
    3: np.dtype("<i2"),
    4: np.dtype("<u4"),
    5: np.dtype("<i4"),
    6: np.dtype("<f4"),
    7: np.dtype("?"),
    10: np.dtype("<u8"),
    11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}
_MIN_PAIR = 8 + 1 + 4 + 1  # length, one character, type, the smallest value
_MIN_ENTRY = 8 + 1 + 4 + 8 + 4 + 8  # length, one character, axes, one extent, type, offset


@dataclass(frozen=True)
class GGUFFile:
    """A file whose header is consistent with its size. No weight has been read.

    Attributes:
        metadata: scalars as Python values, strings as `str`, arrays of strings as lists, and
            arrays of numbers as numpy arrays.
        tensors: every tensor, by its name in the file.
        header_sha256: hash of all the bytes before the data.
    """

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, GGUFTensor]
    header_sha256: str


def read_header(path: Path) -> GGUFFile:
    """Read everything but the weights.

    Raises:
        SourceNotFound: there is no such file.
        SourceError: not a GGUF file of a known version, or one whose header and size disagree.
    """
    if not path.is_file():
        raise SourceNotFound(f"{path} is not a file")
    try:
        with path.open("rb") as file:
            return _read(path, _Cursor(file, path.name))
    except OSError as cause:
        raise SourceError(f"{path} cannot be read: {cause.strerror}") from cause


def _read(path: Path, cursor: "_Cursor") -> GGUFFile:
    _check_version(cursor)
    num_tensors, num_pairs = cursor.number(10), cursor.number(10)
    cursor.check_count(num_pairs, _MIN_PAIR, "metadata keys")
    metadata: dict[str, Any] = {}
    for _ in range(num_pairs):
        key = cursor.string("the name of a metadata key")
        if key in metadata:
            raise SourceError(f"{cursor.name}: the metadata key {key!r} appears twice")
        metadata[key] = _value(cursor, key)
    cursor.check_count(num_tensors, _MIN_ENTRY, "tensors")
    entries = [_tensor_entry(cursor) for _ in range(num_tensors)]
    alignment = _alignment(cursor, metadata)
    start = padded(cursor.place, alignment)
    tensors = check_table(entries, start, alignment, cursor.size, cursor.name)
    return GGUFFile(path, metadata, tensors, cursor.digest())


class _Cursor:
    """A place in the header that never moves past the end of the file or of the limit."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name = name
        self.size = os.fstat(file.fileno()).st_size
        self.place = 0
        self._file = file
        self._hash = hashlib.sha256()

    def take(self, length: int, what: str) -> bytes:
        if self.place + length > self.size:
            raise SourceError(
                f"{self.name} ends within its header: {what} takes {length:,} bytes from byte "
                f"{self.place:,}, the file has {self.size:,}",
                hint="copy or download the file again",
            )
        if self.place + length > MAX_HEADER:
            raise SourceError(
                f"{self.name}: {what} reaches byte {self.place + length:,} of the header; "
                f"at most {MAX_HEADER:,} are read"
            )
        data = self._file.read(length)
        if len(data) != length:
            raise SourceError(f"{self.name} was cut short while it was read")
        self._hash.update(data)
        self.place += length
        return data

    def check_count(self, count: int, smallest: int, what: str) -> None:
        left = min(self.size, MAX_HEADER) - self.place
        if count * smallest > left:
            raise SourceError(
                f"{self.name} says that {count:,} {what} follow byte {self.place:,} of its header, "
                f"where {left:,} bytes are left"
            )

    def number(self, kind: int, what: str = "a number") -> Any:
        dtype = _NUMBERS[kind]
        return np.frombuffer(self.take(dtype.itemsize, what), dtype)[0].item()

    def string(self, what: str) -> str:
        data = self.take(self.number(10, what), what)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as cause:
            raise SourceError(f"{self.name}: {what} is not UTF-8: {data[:40]!r}") from cause

    def digest(self) -> str:
        return self._hash.hexdigest()


def _check_version(cursor: _Cursor) -> None:
    if cursor.size < 24 or cursor.take(4, "the magic") != MAGIC:
        raise SourceError(
            f"{cursor.name} is not a GGUF file: it does not begin with the letters GGUF",
            hint="an interrupted download, or a web page saved in its place?",
        )
    version = cursor.number(4)
    if version in VERSIONS:
        return
    swapped = struct.unpack(">I", struct.pack("<I", version))[0] in VERSIONS
    found = "a big-endian file" if swapped else f"version {version}"
    raise SourceError(
        f"{cursor.name}: expected little-endian GGUF of version 2 or 3, found {found}",
        hint="write the file again with a current llama.cpp",
    )


def _value(cursor: _Cursor, key: str) -> Any:
    kind = cursor.number(4, key)
    if kind == _STRING:
        return cursor.string(key)
    if kind == _ARRAY:
        return _array(cursor, key)
    if kind not in _NUMBERS:
        raise SourceError(f"{cursor.name}: the metadata key {key!r} has the unknown type {kind}")
    if kind == 6:
        # The shortest decimal that rounds to the same float32: 1e-05, as config.json had it,
        # and not 9.999999747378752e-06.
        return float(str(np.frombuffer(cursor.take(4, key), "<f4")[0]))
    return cursor.number(kind, key)


def _array(cursor: _Cursor, key: str) -> Any:
    kind, count = cursor.number(4, key), cursor.number(10, key)
    if kind == _STRING:
        cursor.check_count(count, 8, f"strings of {key}")
        return [cursor.string(f"{key}[{index}]") for index in range(count)]
    if kind not in _NUMBERS:
        inner = "arrays" if kind == _ARRAY else f"the unknown type {kind}"
        raise SourceError(f"{cursor.name}: the metadata key {key!r} is an array of {inner}")
    dtype = _NUMBERS[kind]
    cursor.check_count(count, dtype.itemsize, f"numbers of {key}")
    return np.frombuffer(cursor.take(count * dtype.itemsize, key), dtype)


def _tensor_entry(cursor: _Cursor) -> TensorEntry:
    name = cursor.string("the name of a tensor")
    axes = cursor.number(4, name)
    if not 1 <= axes <= _MAX_AXES:
        raise SourceError(f"{cursor.name}: {name}: expected 1 to {_MAX_AXES} axes, found {axes}")
    extents = [cursor.number(10, name) for _ in range(axes)]
    # GGUF lists the fastest axis first; the rest of the world lists it last.
    return TensorEntry(name, tuple(reversed(extents)), cursor.number(4), cursor.number(10))


def _alignment(cursor: _Cursor, metadata: Mapping[str, Any]) -> int:
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if type(alignment) is not int or alignment <= 0 or alignment & (alignment - 1):
        raise SourceError(
            f"{cursor.name}: general.alignment: expected a power of two, found {alignment!r}"
        )
    return alignment
