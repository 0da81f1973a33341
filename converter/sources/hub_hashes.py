"""Downloaded files against the hashes that the Hub lists for them; it stores two kinds."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoFile

_CHUNK = 1 << 20


def damaged_files(folder: Path, listed: "Iterable[RepoFile]") -> dict[str, str]:
    """Files in `folder` that are not what the Hub lists, each with what is wrong."""
    found = {file.path: _difference(folder / file.path, file) for file in listed}
    return {name: problem for name, problem in found.items() if problem is not None}


def _difference(path: Path, listed: "RepoFile") -> str | None:
    size = path.stat().st_size
    if size != listed.size:
        return f"{size:,} bytes, the Hub lists {listed.size:,}"
    if listed.lfs is not None:
        kind, expected, found = "sha256", listed.lfs.sha256, _digest(path, hashlib.sha256())
    else:
        kind, expected, found = "git hash", listed.blob_id, _digest(path, _git_hash(size))
    return None if found == expected else f"{kind} is {found}, the Hub lists {expected}"


def _git_hash(size: int) -> "hashlib._Hash":
    """git's name of a blob: SHA-1 of a short head and the content."""
    return hashlib.sha1(b"blob %d\x00" % size, usedforsecurity=False)


def _digest(path: Path, digest: "hashlib._Hash") -> str:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
