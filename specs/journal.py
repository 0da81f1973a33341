"""What a run has written of a package so far, so that after a kill the next one can go on.

A line is only a claim: what it says of the file is hashed again before it is believed, so neither
a torn line nor a torn tail of the data after a power failure gets into a package.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from masu.specs.errors import OutputError, SchemaError
from masu.specs.jsonfile import read_json
from masu.specs.regular_file import read_regular

JOURNAL = ".masu-journal"
"""Lies beside the growing model.safetensors; never part of a finished package."""
MAX_BYTES = 256 * 2**20


class Journal:
    """The hashes of the arrays that are complete, one line a tensor.

    Args:
        path: of the journal; one that another run left is read.
        identity: of the plan: source, settings, version, and the header of the file to be.

    Raises:
        OutputError: what lies there was begun by another plan, or cannot be read or written.
    """

    def __init__(self, path: Path, identity: str) -> None:
        self.path = path
        self.done: dict[str, dict[str, str]] = {}
        whole = self._read(identity)
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._file = os.open(path, flags, 0o666)
            os.ftruncate(self._file, whole)  # a torn last line goes
            os.lseek(self._file, 0, os.SEEK_END)
        except OSError as cause:
            raise OutputError(f"{path} cannot be written: {cause.strerror}") from cause
        if not whole:
            self._append({"identity": identity})

    def add(self, tensor: str, arrays: Mapping[str, str]) -> None:
        """Record that these arrays of a tensor are written, with their SHA-256."""
        self._append({"tensor": tensor, "arrays": dict(arrays)})

    def close(self) -> None:
        os.close(self._file)

    def _append(self, entry: Mapping[str, object]) -> None:
        try:
            os.write(self._file, json.dumps(entry).encode("ascii") + b"\n")
        except OSError as cause:
            raise OutputError(f"{self.path} cannot be written: {cause.strerror}") from cause

    def _read(self, identity: str) -> int:
        """Take over the lines of an earlier run; how many bytes of them are whole."""
        if not os.path.lexists(self.path):
            return 0
        data = read_regular(self.path, MAX_BYTES, error=OutputError)
        lines = data.split(b"\n")[:-1]
        if not lines:
            return 0
        if self._entry(lines[0]).get("identity") != identity:
            raise OutputError(
                f"{self.path.parent}: an interrupted conversion of another source, version of masu"
                " or with other settings lies here, so it cannot be continued",
                hint="run without --resume to start over, or with the settings of that run",
            )
        for line in lines[1:]:
            entry = self._entry(line)
            tensor, arrays = entry.get("tensor"), entry.get("arrays")
            if isinstance(tensor, str) and isinstance(arrays, dict):
                self.done[tensor] = arrays
        return sum(len(line) + 1 for line in lines)

    def _entry(self, line: bytes) -> dict[str, object]:
        """A line as an object; a damaged one says nothing, and so nothing is skipped by it."""
        try:
            entry = read_json(line, str(self.path))
        except SchemaError:
            return {}
        return entry if isinstance(entry, dict) else {}


def sources_stamp(paths: set[Path]) -> str:
    """Sizes and times of change of the source's weight files: whether they are still the same.

    Their bytes are hashed as they are converted; this is for those that were copied before.
    """
    stats = [(path.resolve(), path.stat()) for path in paths]
    lines = sorted(f"{path} {stat.st_size} {stat.st_mtime_ns}" for path, stat in stats)
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
