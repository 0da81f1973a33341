"""Writes model.safetensors from a plan: the bytes stream through and are hashed on the way."""

import contextlib
import errno
import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from masu.specs.container_layout import FileLayout, plan_layout, stored_bytes
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.errors import MasuError, OutputError, PackageError, SourceError
from masu.specs.journal import Journal
from masu.specs.stream import FileRange, Piece, PlannedTensor
from masu.specs.tensors import ArraySpec

_CHUNK = 8 * 2**20
_BUFFERS = 3  # one is read or written while another is hashed and a third waits its turn

BUFFER_BYTES = _CHUNK * _BUFFERS
"""Memory that copying takes, whatever the size of the tensors."""
_SMALL = 64 * 2**10  # handing fewer bytes to the other thread takes longer than hashing them

HINTS = {
    errno.ENOSPC: "free some space there, or choose another output folder",
    errno.EDQUOT: "your disk quota is used up; free some space or choose another output folder",
    errno.EFBIG: "the file system or a limit of this process does not allow a file this large",
    errno.EROFS: "choose an output folder that can be written to",
    errno.EACCES: "choose an output folder that can be written to",
    errno.EPERM: "choose an output folder that can be written to",
}


class WrittenHashes(NamedTuple):
    """SHA-256 (hex) of what was written: together, header and arrays are every byte of the file.

    Attributes:
        header: of the header, its length included.
        arrays: of each stored array, in file order.
        ranges: of each stretch of a source that was copied.
    """

    header: str
    arrays: dict[str, str]
    ranges: dict[FileRange, str]


def write_container(
    path: Path,
    plan: Sequence[PlannedTensor],
    metadata: Mapping[str, str],
    *,
    on_bytes: Callable[[int], None] | None = None,
    journal: Journal | None = None,
) -> WrittenHashes:
    """Write a new file at `path`; after any failure there is none, unless there is a journal.

    Tensors are taken in file order, one at a time; file ranges pass through a few small buffers.
    The header comes last, so a file whose writer was killed is never taken for a whole one.

    Args:
        path: must not exist, so that no source can be overwritten while it is being read.
        on_bytes: called with the size of each chunk once it is written; they add up to the file.
        journal: of this plan. Every tensor is entered; those that it has already are kept where
            the file at `path` holds the very bytes. The `ranges` of those are not in the result.

    Raises:
        OutputError: the file cannot be written, or pieces do not fill their arrays exactly.
        SourceError: a file range cannot be read to its end.
    """
    arrays = _stored_arrays(plan)
    layout = plan_layout(arrays, metadata)
    report = on_bytes or _ignore
    with _Target(path, keep=journal is not None) as target:
        target.resize(layout.size)
        with _Hashing() as hashing:
            writer = _ArraysWriter(target, layout, arrays, hashing, report)
            for tensor in _in_file_order(plan, layout):
                writer.make(tensor, journal)
            stored, copied = writer.finish()
        target.write(layout.header, 0)
        report(len(layout.header))
        target.sync()
    return WrittenHashes(hashlib.sha256(layout.header).hexdigest(), stored, copied)


def hash_file(path: Path, *, error: type[MasuError] = PackageError) -> str:
    """SHA-256 (hex) of a file's bytes, never all in memory; raises `error` if it is unreadable."""
    try:
        with path.open("rb", buffering=0) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as cause:
        raise error(f"{path} cannot be read: {cause.strerror}") from cause


def _ignore(count: int) -> None: ...


def _stored_arrays(plan: Sequence[PlannedTensor]) -> dict[str, ArraySpec]:
    arrays: dict[str, ArraySpec] = {}
    twice: list[str] = []
    for tensor in plan:
        twice += [f"{name} (again in {tensor.name})" for name in tensor.arrays if name in arrays]
        arrays.update(tensor.arrays)
    if twice:
        raise OutputError("the plan stores arrays more than once", problems=twice)
    return arrays


def _in_file_order(plan: Sequence[PlannedTensor], layout: FileLayout) -> list[PlannedTensor]:
    """By the first byte of the first array, so that the disk is written from front to back."""

    def first_byte(tensor: PlannedTensor) -> int:
        return min((layout.offsets[name] for name in tensor.arrays), default=0)

    return sorted(plan, key=first_byte)


class _Target:
    """The file being written, closed on leaving and removed after an exception.

    What the system refuses becomes an OutputError. To `keep` it, it may be there, and stays.
    """

    def __init__(self, path: Path, *, keep: bool = False) -> None:
        self.path = path
        self._keep = keep
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with self._explained("created"):
            self._file = os.open(path, flags if keep else flags | os.O_EXCL, 0o666)

    def resize(self, size: int) -> None:
        """Cut off what an earlier run wrote beyond this size."""
        with self._explained("written"):
            if os.fstat(self._file).st_size > size:
                os.ftruncate(self._file, size)

    def sha256(self, begin: int, end: int) -> Any:
        """The hash of what the file holds there, for going on with."""
        digest, chunk = hashlib.sha256(), b""
        with self._explained("read"):
            while begin < end and (chunk := os.pread(self._file, min(_CHUNK, end - begin), begin)):
                digest.update(chunk)
                begin += len(chunk)
        return digest

    def write(self, data: bytes | memoryview, offset: int) -> None:
        view, done = memoryview(data), 0
        with self._explained("written"):
            while done < len(view):
                done += os.pwrite(self._file, view[done:], offset + done)

    def sync(self) -> None:
        with self._explained("written"):
            os.fsync(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        os.close(self._file)
        if kind is not None and not self._keep:
            with contextlib.suppress(OSError):  # the failure that led here says more
                self.path.unlink()

    @contextlib.contextmanager
    def _explained(self, action: str) -> Iterator[None]:
        try:
            yield
        except OSError as cause:
            message = f"{self.path} cannot be {action}: {cause.strerror}"
            raise OutputError(message, hint=HINTS.get(cause.errno or 0)) from cause


class _Hashing:
    """Two threads: one hashes what is stored, one the same bytes by where they came from."""

    def __enter__(self) -> Self:
        self.stored = ThreadPoolExecutor(1, "sha256-stored")
        self.sources = ThreadPoolExecutor(1, "sha256-sources")
        self.ranges: dict[FileRange, Any] = {}
        return self

    def __exit__(self, *_: object) -> None:
        self.stored.shutdown()
        self.sources.shutdown()

    def source_digest(self, piece: FileRange) -> Any | None:
        """A new hash for a stretch; None for one that was hashed before."""
        if piece in self.ranges:
            return None
        self.ranges[piece] = hashlib.sha256()
        return self.ranges[piece]


@dataclass
class _Cursor:
    """How far one stored array has been written, and the hash of that part."""

    position: int
    end: int
    dtype: np.dtype
    hashed: Future[None]  # done when the second thread has hashed all that it was given
    digest: Any = field(default_factory=hashlib.sha256)

    @property
    def room(self) -> int:
        return self.end - self.position


class _ArraysWriter:
    """Puts every piece at the cursor of its array, while a second thread hashes the last ones."""

    def __init__(
        self,
        target: _Target,
        layout: FileLayout,
        arrays: Mapping[str, ArraySpec],
        hashing: _Hashing,
        on_bytes: Callable[[int], None],
    ) -> None:
        self._target = target
        self._hashing = hashing
        self._on_bytes = on_bytes
        self._copied: dict[FileRange, str] = {}
        self._entered: deque[Future[None]] = deque()
        idle: Future[None] = hashing.stored.submit(_ignore, 0)
        self._buffers = deque((bytearray(_CHUNK), (idle, idle)) for _ in range(_BUFFERS))
        self._cursors = {
            name: _Cursor(
                position=start,
                end=start + stored_bytes(arrays[name]),
                dtype=NUMPY_DTYPES[arrays[name].dtype],
                hashed=idle,
            )
            for name, start in layout.offsets.items()
        }

    def take(self, tensor: PlannedTensor) -> None:
        """Write all pieces of one planned tensor, each of its arrays to the last byte."""
        for name, piece in tensor.pieces():
            if name not in tensor.arrays:
                raise OutputError(f"{tensor.name} gave bytes of {name}, which it does not store")
            cursor = self._cursors[name]
            _check_fits(name, cursor, piece)
            if isinstance(piece, FileRange) and piece == tensor.copied:
                self._copied[piece] = name
                self._copy(cursor, piece, None)
            elif isinstance(piece, FileRange):
                self._copy(cursor, piece, self._hashing.source_digest(piece))
            else:
                self._store(cursor, piece)
        short = [
            f"{name}: {self._cursors[name].room} of {stored_bytes(array)} bytes are missing"
            for name, array in tensor.arrays.items()
            if self._cursors[name].room
        ]
        if short:
            raise OutputError(f"{tensor.name} did not fill its arrays", problems=short)

    def make(self, tensor: PlannedTensor, journal: Journal | None) -> None:
        """Take a tensor, unless the journal has it and the file too; enter it there."""
        if journal is None:
            self.take(tensor)
        elif not self.keep(tensor, journal.done.get(tensor.name)):
            self.take(tensor)
            self.enter(tensor, journal)

    def keep(self, tensor: PlannedTensor, claimed: Mapping[str, str] | None) -> bool:
        """Whether the file already holds what was claimed of it; if so, its arrays are done."""
        if claimed is None or claimed.keys() != tensor.arrays.keys():
            return False
        cursors = {name: self._cursors[name] for name in tensor.arrays}
        found = {name: self._target.sha256(c.position, c.end) for name, c in cursors.items()}
        if any(digest.hexdigest() != claimed[name] for name, digest in found.items()):
            return False
        for name, cursor in cursors.items():
            cursor.digest, room = found[name], cursor.room
            cursor.position = cursor.end
            self._on_bytes(room)
        return True

    def enter(self, tensor: PlannedTensor, journal: Journal) -> None:
        """Put a tensor that was taken into the journal, once its last byte is hashed."""
        cursors = {name: self._cursors[name] for name in tensor.arrays}

        def note() -> None:
            journal.add(tensor.name, {n: c.digest.hexdigest() for n, c in cursors.items()})

        self._entered.append(self._hashing.stored.submit(note))  # that thread works in order

    def finish(self) -> tuple[dict[str, str], dict[FileRange, str]]:
        """Wait for the last hashes: of the arrays, and of the stretches they were copied from."""
        for _, hashed in self._buffers:
            _wait(hashed)
        _wait(self._entered)
        for cursor in self._cursors.values():
            cursor.hashed.result()
        arrays = {name: cursor.digest.hexdigest() for name, cursor in self._cursors.items()}
        ranges = {piece: digest.hexdigest() for piece, digest in self._hashing.ranges.items()}
        return arrays, ranges | {piece: arrays[name] for piece, name in self._copied.items()}

    def _copy(self, cursor: _Cursor, piece: FileRange, origin: Any | None) -> None:
        """`origin` hashes the stretch by itself, where it is not the whole array."""
        with _Source(piece) as source:
            while not source.exhausted:
                buffer, hashed = self._buffers.popleft()
                _wait(hashed)
                chunk = source.read_into(buffer)
                stored = self._put(cursor, chunk)
                again = stored
                if origin is not None:
                    again = self._hashing.sources.submit(origin.update, chunk)
                self._buffers.append((buffer, (stored, again)))

    def _store(self, cursor: _Cursor, piece: np.ndarray) -> None:
        data = np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data
        for start in range(0, len(data), _CHUNK):
            self._put(cursor, data[start : start + _CHUNK])
        # Whoever made the array may use its memory again once the next piece is asked for.
        cursor.hashed.result()

    def _put(self, cursor: _Cursor, chunk: memoryview) -> Future[None]:
        """Write and hash a chunk; it must stay as it is until the result, its hash, is done."""
        if len(chunk) < _SMALL:
            cursor.hashed.result()
            cursor.digest.update(chunk)
        else:
            cursor.hashed = self._hashing.stored.submit(cursor.digest.update, chunk)
        self._target.write(chunk, cursor.position)
        cursor.position += len(chunk)
        self._on_bytes(len(chunk))
        return cursor.hashed


def _wait(hashed: Iterable[Future[None]]) -> None:
    for future in hashed:
        future.result()


def _check_fits(name: str, cursor: _Cursor, piece: Piece) -> None:
    if isinstance(piece, FileRange):
        length = piece.length
    elif piece.dtype == cursor.dtype:
        length = piece.nbytes
    else:
        raise OutputError(f"{name}: expected values of type {cursor.dtype}, got {piece.dtype}")
    if length > cursor.room:
        raise OutputError(f"{name}: got {length} bytes where {cursor.room} are left to be filled")


class _Source:
    """Reads one stretch of a source file from front to back."""

    def __init__(self, piece: FileRange) -> None:
        self._piece = piece
        self._done = 0

    def __enter__(self) -> "_Source":
        with self._explained():
            self._file = os.open(self._piece.path, os.O_RDONLY | os.O_CLOEXEC)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    @property
    def exhausted(self) -> bool:
        return self._done == self._piece.length

    def read_into(self, buffer: bytearray) -> memoryview:
        """The next bytes, at the front of `buffer`, as many as there are and fit."""
        chunk = memoryview(buffer)[: self._piece.length - self._done]
        with self._explained():
            count = os.preadv(self._file, [chunk], self._piece.offset + self._done)
        if count == 0:
            end = self._piece.offset + self._piece.length
            raise SourceError(
                f"{self._piece.path} ends at byte {self._piece.offset + self._done:,}, but a tensor"
                f" in it goes up to byte {end:,}",
                hint="the file was cut short since the conversion began; fetch it again",
            )
        self._done += count
        return chunk[:count]

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as cause:
            message = f"{self._piece.path} cannot be read: {cause.strerror}"
            raise SourceError(message) from cause
