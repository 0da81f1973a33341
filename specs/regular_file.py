"""Opens files that may be anything: a pipe or a device is refused, never waited for."""

import os
import stat
from io import FileIO
from pathlib import Path

from masu.specs.errors import MasuError


def open_regular(path: Path, *, error: type[MasuError]) -> FileIO:
    """An unbuffered file for reading; raises `error` if it is none, or cannot be opened."""
    try:
        # Without O_NONBLOCK, opening a named pipe waits for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as cause:
        raise error(f"{path} cannot be read: {cause.strerror}") from cause
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise error(f"{path} is not a regular file")
    return FileIO(descriptor)


def read_regular(path: Path, max_bytes: int, *, error: type[MasuError]) -> bytes:
    """All bytes of a regular file; raises `error` if it has more than `max_bytes`."""
    with open_regular(path, error=error) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            if size > max_bytes:
                raise error(
                    f"{path} is larger than {max_bytes:,} bytes, the most that is read of it"
                )
            return file.readall()
        except OSError as cause:
            raise error(f"{path} cannot be read: {cause.strerror}") from cause
