"""A Hub repository: one commit of it, config first, then only the files that are needed."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from masu.converter.checkpoint import Checkpoint
from masu.converter.sources.borrowed import BorrowedText, Pin, fetch_texts, with_texts
from masu.converter.sources.folder import (
    CONFIG,
    TEXTS,
    parse_config,
    read_checkpoint,
    read_small,
    require_config,
    size_limit,
)
from masu.converter.sources.hub_snapshot import HubSnapshot, pin
from masu.converter.sources.weight_files import INDEX, find_weight_files
from masu.specs.errors import SourceError

NO_FILES: Mapping[str, str] = {}


def open_hub(
    repo: str,
    *,
    revision: str | None = None,
    offline: bool = False,
    cache_dir: Path | None = None,
    endpoint: str | None = None,
    files: Mapping[str, str] = NO_FILES,
    accept: Callable[[dict[str, Any]], None] | None = None,
    on_message: Callable[[str], None] | None = None,
) -> Checkpoint:
    """Open a repository through huggingface_hub: its cache, tokens, settings and progress bars.

    The revision is resolved to a commit once; every file is of that commit, even if the branch
    moves meanwhile. What the cache holds of it is not requested again.

    Args:
        repo: `org/name`.
        revision: branch, tag or commit; None means `main`.
        offline: use nothing but the cache (as HF_HUB_OFFLINE does).
        cache_dir: where files are kept; None means huggingface_hub's own cache.
        endpoint: address of the Hub; None means huggingface_hub's own (HF_ENDPOINT).
        files: text files to take from elsewhere, as in `ModelSpec`; before any weight.
        accept: called with the config before any weight is fetched; what it raises passes through.
        on_message: called with each line worth showing.

    Raises:
        SourceNotFound: no such repository, revision or config; offline: not in the cache.
        SourceError: access refused, transfer failed, or not exactly one readable checkpoint.
    """
    say = on_message or (lambda line: None)
    pin_here = pinning(offline, cache_dir, endpoint, say)
    snapshot = pin_here(repo, revision or "main")
    borrow = partial(fetch_texts, files, pin_here)
    checkpoint = _fetch(snapshot, accept or (lambda config: None), borrow, say)
    pinned = {"kind": "hub", "name": repo, "revision": snapshot.commit}
    return replace(checkpoint, identity={**checkpoint.identity, **pinned})


def pinning(
    offline: bool, cache_dir: Path | None, endpoint: str | None, say: Callable[[str], None]
) -> Pin:
    """`pin` with these settings; it says which commit it found."""

    def pin_here(repo: str, revision: str) -> HubSnapshot:
        snapshot = pin(repo, revision, offline, cache_dir, endpoint)
        say(f"{repo}@{snapshot.revision} is commit {snapshot.commit}")
        return snapshot

    return pin_here


def _fetch(
    snapshot: HubSnapshot,
    accept: Callable[[dict[str, Any]], None],
    borrow: Callable[[HubSnapshot], list[BorrowedText]],
    say: Callable[[str], None],
) -> Checkpoint:
    where = snapshot.repo
    folder = snapshot.fetch([CONFIG])
    listing = snapshot.listing()
    config = read_small(folder / require_config(listing, where))
    accept(parse_config(config, f"{where}/{CONFIG}"))
    borrowed = borrow(snapshot)

    texts = [name for name in TEXTS if name in listing.files]
    _refuse_large([INDEX, *texts], snapshot.sizes(), where)

    def read(name: str) -> bytes:
        return read_small(snapshot.fetch([name]) / name)

    weights = find_weight_files(listing.files, read, where)
    if weights.problems:
        raise SourceError(f"{where}: its files and {INDEX} disagree", problems=weights.problems)
    missing = [name for name in weights.files if not (folder / name).is_file()]
    if missing:
        num_bytes = sum(snapshot.sizes()[name] for name in missing)
        say(f"fetching {len(missing)} weight files, {num_bytes:,} bytes")
    snapshot.fetch([*texts, *weights.files], progress=bool(missing))
    checkpoint = read_checkpoint(folder, listing, name=where, where=where)
    return with_texts(checkpoint, borrowed)


def _refuse_large(names: Collection[str], sizes: Mapping[str, int], where: str) -> None:
    problems = [
        f"{name}: {sizes[name]:,} bytes, at most {size_limit(name):,} are read"
        for name in names
        if sizes.get(name, 0) > size_limit(name)
    ]
    if problems:
        raise SourceError(f"files of {where} are too large", problems=problems)
