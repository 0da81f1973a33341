"""What lies in a checkpoint's folder, by name: files, folders, and names that lead nowhere."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from masu.specs.errors import SourceError, SourceNotFound


@dataclass(frozen=True)
class Listing:
    """The top level of a checkpoint's folder; nothing has been read.

    Attributes:
        files: names of regular files, and of links to them.
        folders: names of the folders, as `name/`.
        unreadable: names that are there but are no files, with the reason.
    """

    files: frozenset[str]
    folders: frozenset[str]
    unreadable: Mapping[str, str] = field(default_factory=dict)


def list_folder(path: Path) -> Listing:
    """The listing of a local folder.

    A Hub cache's links into its blobs count as the files that they lead to, and so do links to
    other files of the folder. A link that leads elsewhere is not followed.

    Raises:
        SourceNotFound: there is no such folder.
        SourceError: it cannot be listed.
    """
    try:
        if not path.is_dir():
            kind = "is a file, not a folder" if path.exists() else "does not exist"
            raise SourceNotFound(f"{path} {kind}")
        return _list(list(path.iterdir()), path.resolve())
    except OSError as cause:
        raise SourceError(f"{path} cannot be listed: {cause.strerror}") from cause


def list_paths(paths: Iterable[str]) -> Listing:
    """The listing of a repository, from the paths of all its files."""
    split = [path.partition("/") for path in paths]
    return Listing(
        files=frozenset(first for first, _, rest in split if not rest),
        folders=frozenset(f"{first}/" for first, _, rest in split if rest),
    )


def printable_name(entry: Path) -> str:
    """The name as text that can be printed and stored, whatever bytes it is made of."""
    return os.fsencode(entry.name).decode("utf-8", "backslashreplace")


def _list(entries: list[Path], folder: Path) -> Listing:
    folders = [entry for entry in entries if entry.is_dir()]
    files = [entry for entry in entries if entry.is_file() and _stays_inside(entry, folder)]
    others = set(entries) - {*folders, *files}
    return Listing(
        files=frozenset(map(printable_name, files)),
        folders=frozenset(f"{printable_name(folder)}/" for folder in folders),
        unreadable={printable_name(entry): _why_unreadable(entry) for entry in others},
    )


def _stays_inside(entry: Path, folder: Path) -> bool:
    """Whether a file lies in the folder, or among the blobs of the cache whose snapshot that is."""
    if not entry.is_symlink():
        return True
    place = entry.resolve().parent
    is_snapshot = folder.parent.name == "snapshots"
    return place == folder or (is_snapshot and place == folder.parent.parent / "blobs")


def _why_unreadable(entry: Path) -> str:
    if entry.is_symlink() and entry.exists():
        return f"a link that leads out of the folder, to {entry.resolve()}: copy the file here"
    if entry.is_symlink():
        return f"missing: it is a link to {entry.readlink().name}, which is not there"
    return "not a regular file"
