"""Reads safetensors files: one strict look at the header, then tensors one by one on request."""

import os
import weakref
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from masu.specs.container_header import MAX_HEADER, StoredTensor, parse_header
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.errors import ContainerError
from masu.specs.stream import FileRange

_MAX_READ = 2**30  # one call moves at most this much; macOS refuses 2 GiB and more

# What is found in the place of a weight file, by its first bytes (lower case, no leading space).
_IMPOSTORS = {
    b"version https://git-lfs": (
        "a git-lfs pointer, not the file itself",
        "run `git lfs pull` in its repository, or download the file",
    ),
    b"<!doctype html": ("a web page", "the download failed; is a login or licence needed?"),
    b"<html": ("a web page", "the download failed; is a login or licence needed?"),
}


class Container:
    """An open safetensors file whose header is proven to account for every byte.

    Reads are positioned (`pread`) into fresh memory: any number of threads may read at once, and
    no page of the file stays mapped. The file is closed by `close`, by leaving a `with` block,
    or when the object goes away.

    Attributes:
        path: where it was opened.
        tensors: every tensor, in file order.
        metadata: the file's own strings.
        size: bytes of the file.
    """

    def __init__(self, path: Path, file: FileIO) -> None:
        """Use `Container.open`; this takes over `file` and validates its header."""
        self._file = file
        self._closer = weakref.finalize(self, file.close)
        self.path = path
        self.size = os.fstat(file.fileno()).st_size
        self._mapped: np.ndarray | None = None
        self.tensors: Mapping[str, StoredTensor]
        self.metadata: Mapping[str, str]
        self.tensors, self.metadata = self._read_header()

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open and validate; reads the header only.

        Raises:
            ContainerError: not a readable file, or not exactly the safetensors format: header of
                at most 100,000,000 bytes of strict JSON, known types, lengths that fit shapes,
                no gap, overlap or trailing byte.
        """
        if not path.is_file():  # before opening: a named pipe would wait for its writer
            kind = "is not a regular file" if path.exists() else "does not exist"
            raise ContainerError(f"{path} {kind}")
        try:
            file = FileIO(path)
        except OSError as cause:
            raise ContainerError(f"{path} cannot be opened: {cause.strerror}") from cause
        return cls(path, file)

    def close(self) -> None:
        self._closer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def read(self, name: str, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Rows `start..stop` of a tensor's first axis, as a new array `[stop - start, ...]`.

        A scalar has one row and comes as `[]`.

        Raises:
            ContainerError: no such tensor, or the file was cut short since it was opened.
            IndexError: rows that the tensor does not have.
        """
        tensor = self._tensor(name)
        rows = tensor.shape[0] if tensor.shape else 1
        stop = rows if stop is None else stop
        if not 0 <= start <= stop <= rows:
            raise IndexError(f"{name!r} has {rows} rows, asked for {start}..{stop}")
        array = np.empty((stop - start, *tensor.shape[1:]), NUMPY_DTYPES[tensor.dtype])
        offset = tensor.offset + start * (tensor.length // max(rows, 1))
        self._fill(array.reshape(-1).view(np.uint8).data, offset, repr(name))
        return array if tensor.shape else array.reshape(())

    def range(self, name: str) -> FileRange:
        """Where the tensor's bytes lie, for copying them unread."""
        tensor = self._tensor(name)
        return FileRange(self.path, tensor.offset, tensor.length)

    def view(self, name: str) -> np.ndarray:
        """A whole tensor as it lies in the mapped file; nothing is read before it is used.

        Raises:
            ContainerError: no such tensor, or the file's size is another than when it was opened.
        """
        tensor = self._tensor(name)
        if self._mapped is None:
            self._mapped = self.map()
        stored = self._mapped[tensor.offset : tensor.offset + tensor.length]
        return stored.view(NUMPY_DTYPES[tensor.dtype]).reshape(tensor.shape)

    def map(self) -> np.ndarray:
        """The whole file, mapped read-only, as `[size]` uint8; it outlives `close`."""
        self._check_size()
        return np.memmap(self._file, np.uint8, mode="r")

    def _tensor(self, name: str) -> StoredTensor:
        if name not in self.tensors:
            raise ContainerError(f"{self.path} has no tensor {name!r}")
        return self.tensors[name]

    def _read_header(self) -> tuple[dict[str, StoredTensor], dict[str, str]]:
        start = self._bytes(0, min(self.size, 64), "its first bytes")
        self._refuse_impostors(start)
        if self.size < 8:
            raise ContainerError(f"{self.path} has {self.size} bytes, too few for a header")
        length = int.from_bytes(start[:8], "little")
        if length > MAX_HEADER:
            raise ContainerError(
                f"{self.path} is not a safetensors file: its first 8 bytes claim a header of"
                f" {length:,} bytes, the format allows {MAX_HEADER:,}"
            )
        if length > self.size - 8:
            raise ContainerError(
                f"{self.path} ends inside its header: that takes {length:,} bytes from byte 8,"
                f" the file has {self.size:,}",
                hint="copy or download the file again",
            )
        text = self._bytes(8, length, "its header")
        return parse_header(text, str(self.path), 8 + length, self.size)

    def _refuse_impostors(self, start: bytes) -> None:
        if self.size == 0:
            raise ContainerError(f"{self.path} is empty", hint="copy or download the file again")
        for prefix, (what, hint) in _IMPOSTORS.items():
            if start.lstrip().lower().startswith(prefix):
                raise ContainerError(f"{self.path} is {what}", hint=hint)

    def _check_size(self) -> None:
        size = os.fstat(self._file.fileno()).st_size
        if size != self.size:
            raise ContainerError(
                f"{self.path} changed while it was open: it had {self.size:,} bytes, now {size:,}"
            )

    def _bytes(self, offset: int, length: int, what: str) -> bytes:
        buffer = bytearray(length)
        self._fill(memoryview(buffer), offset, what)
        return bytes(buffer)

    def _fill(self, view: memoryview, offset: int, what: str) -> None:
        """Read the bytes at `offset` into `view`, until it is full."""
        done = 0
        while done < len(view):
            chunk = view[done : done + _MAX_READ]
            try:
                count = os.preadv(self._file.fileno(), [chunk], offset + done)
            except OSError as cause:
                message = f"{self.path} cannot be read ({what}): {cause.strerror}"
                raise ContainerError(message) from cause
            if count == 0:
                raise ContainerError(
                    f"{self.path} was cut short while it was open: {what} goes up to byte"
                    f" {offset + len(view):,}, the file ends before"
                )
            done += count
