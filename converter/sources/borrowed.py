"""Text files that a model's entry takes from other places on the Hub, each at one commit."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeAlias

from masu.converter.checkpoint import SYSTEM_PROMPT, Checkpoint
from masu.converter.sources.folder import TEXTS, read_small, size_limit
from masu.converter.sources.hub_names import HubFile, split_hub_file
from masu.converter.sources.hub_snapshot import HubSnapshot
from masu.specs.errors import SourceError, SourceNotFound

Pin: TypeAlias = Callable[[str, str], HubSnapshot]

BORROWABLE = (*TEXTS, SYSTEM_PROMPT)
_FORMS = (
    "write org/name or org/name@revision, with :path/in/repository if it has another name there"
)


@dataclass(frozen=True)
class BorrowedText:
    """A file that was fetched.

    Attributes:
        name: what it is to the checkpoint: `tokenizer.json`.
        origin: where it was: `org/name@commit: path`.
        own_path: its path, if it is of the checkpoint's own commit.
    """

    name: str
    origin: str
    data: bytes
    own_path: str | None


def parse_files(files: Mapping[str, str]) -> dict[str, HubFile]:
    """An entry's `files`, read.

    Raises:
        SourceError: a name that no text file has, or a place of another form.
    """
    places = {name: split_hub_file(text, name) for name, text in files.items()}
    problems = [
        f"{name}: expected one of {', '.join(BORROWABLE)}"
        for name in files
        if name not in BORROWABLE
    ]
    problems += [
        f"{name}: {files[name]!r} is no place on the Hub"
        for name, place in places.items()
        if place is None
    ]
    if problems:
        raise SourceError("`files` of the model's entry", problems=problems, hint=_FORMS)
    return {name: place for name, place in places.items() if place is not None}


def fetch_texts(
    files: Mapping[str, str], pin: Pin, own: HubSnapshot | None = None
) -> list[BorrowedText]:
    """Fetch them, or take them from the cache.

    A branch is resolved to a commit once, whatever the number of files.

    Args:
        files: as in `ModelSpec`.
        pin: resolves a repository and a revision.
        own: the commit of the checkpoint itself, which its repository means here too.

    Raises:
        SourceError: as `parse_files` and `open_hub`; the message names file and repository.
    """

    @cache
    def snapshot(repo: str, revision: str | None) -> HubSnapshot:
        if own is not None and (repo, revision) == (own.repo, None):
            return own
        return pin(repo, revision or "main")

    borrowed = []
    for name, place in parse_files(files).items():
        with _naming(place):
            found = snapshot(place.repo, place.revision)
            data = _read(found, place.path)
        origin = f"{found.repo}@{found.commit}: {place.path}"
        borrowed.append(BorrowedText(name, origin, data, place.path if found is own else None))
    return borrowed


OWN = "of the checkpoint"
"""Before the name of a file that another one replaces; a folder's own name is in no manifest."""


def with_texts(checkpoint: Checkpoint, borrowed: list[BorrowedText]) -> Checkpoint:
    """The checkpoint with these in place of its own; its identity gets their hashes."""
    inert = dict(checkpoint.inert_files)
    for text in borrowed:
        replaced = text.name in checkpoint.texts or inert.pop(text.name, None) is not None
        if text.own_path is not None:
            inert.pop(text.own_path, None)
        if replaced and text.own_path != text.name:
            inert[f"{OWN}: {text.name}"] = f"superseded by {text.origin}"
    hashes = {text.origin: hashlib.sha256(text.data).hexdigest() for text in borrowed}
    identity = checkpoint.identity
    return replace(
        checkpoint,
        texts={**checkpoint.texts, **{text.name: text.data for text in borrowed}},
        text_origins={text.name: text.origin for text in borrowed},
        identity={**identity, "files": {**identity["files"], **hashes}},
        inert_files=inert,
    )


def _read(snapshot: HubSnapshot, path: str) -> bytes:
    """A file of a commit, its size known before it is fetched."""
    snapshot.fetch([])  # brings the list of files
    size = snapshot.sizes().get(path)
    if size is None:
        raise SourceNotFound(f"{snapshot.repo} has no such file at commit {snapshot.commit}")
    limit = size_limit(Path(path).name)
    if size > limit:
        raise SourceError(f"it has {size:,} bytes, at most {limit:,} are read of such a file")
    return read_small(snapshot.fetch([path]) / path)


@contextmanager
def _naming(place: HubFile) -> Iterator[None]:
    """Say which file could not be had."""
    try:
        yield
    except SourceError as error:
        message = f"{place}: {error.message}"
        raise type(error)(message, problems=error.problems, hint=error.hint) from error
