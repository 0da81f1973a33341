"""Brings a package from the Hub: one commit, every byte compared with its hash, whole or not.

Files lie in a folder beside the target until all of them are there, so an interrupted run is gone
on with: huggingface_hub fetches several at a time, and resumes them.
"""

import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from masu.converter.sources.hub_hashes import damaged_files
from masu.converter.sources.hub_names import split_hub_name
from masu.converter.sources.hub_snapshot import HubSnapshot, pin
from masu.events import Event, OnEvent
from masu.planning import MODELS
from masu.signing import signature_findings
from masu.specs.check import check_package, damage
from masu.specs.errors import IntegrityError, MasuError, NotAPackage, SourceNotFound
from masu.specs.jsonfile import read_json_file
from masu.specs.output import (
    MODEL_TYPES,
    PACKAGE_FILES,
    refuse_occupied,
    require_space,
    whole_folder,
)
from masu.specs.package import CONFIG, WEIGHTS

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoFile


@dataclass(frozen=True)
class Pulled:
    """A package that came from the Hub.

    Attributes:
        commit: full hash of the commit that it is.
        files: what was fetched, by paths.
        left_out: files of the repository that belong to no package, such as README.md.
    """

    path: Path
    repo: str
    commit: str
    files: tuple[str, ...]
    bytes: int
    left_out: tuple[str, ...]


def pull(
    repo: str,
    out: str | Path | None = None,
    *,
    key: str | Path | None = None,
    overwrite: bool = False,
    endpoint: str | None = None,
    on_event: OnEvent | None = None,
) -> Pulled:
    """Fetch a package that masu or lalamo wrote.

    Args:
        repo: `org/name`, or `org/name@revision` with a branch, a tag or a commit.
        out: the package's folder; by default `models/org/name`.
        key: also demand that the package is signed with this public key, a PEM file.
        endpoint: address of the Hub; None means huggingface_hub's own (HF_ENDPOINT).

    Raises:
        SourceError: no such repository or revision, access refused, or transfer failed.
        NotAPackage: the repository holds something else.
        IntegrityError: a file is not what the Hub lists, the manifest records, or was signed.
        OutputError: the target is taken or cannot be written.
    """
    split = split_hub_name(repo)
    if split is None:
        raise SourceNotFound(f"{repo!r} is no name of a repository", hint="org/name[@revision]")
    name, revision = split
    target = Path(out) if out is not None else MODELS / name
    refuse_occupied(target, overwrite=overwrite)
    waiting = target.absolute().with_name(f".{target.name}.masu-pull")
    with whole_folder(target, overwrite=overwrite) as folder:
        snapshot = _pinned(name, revision, waiting, endpoint)
        wanted, left_out = _split(snapshot.tree(), f"{name}@{snapshot.commit}")
        _fetch(snapshot, wanted, target, on_event)
        for file in wanted:
            _link(waiting / file.path, folder / file.path)
        _refuse_damaged(folder, f"{name}@{snapshot.commit}", key)
    shutil.rmtree(waiting, ignore_errors=True)
    names, size = tuple(file.path for file in wanted), sum(file.size for file in wanted)
    return Pulled(target, name, snapshot.commit, names, size, left_out)


def _pinned(repo: str, revision: str | None, folder: Path, endpoint: str | None) -> HubSnapshot:
    """The commit, its files fetched into a folder instead of the cache."""
    snapshot = pin(repo, revision or "main", False, folder, endpoint)
    return replace(snapshot, local_dir=folder)


def _split(tree: "list[RepoFile]", where: str) -> "tuple[list[RepoFile], tuple[str, ...]]":
    """Files of a package, and all others."""
    ours = [file for file in tree if file.path.partition("/")[0] in PACKAGE_FILES]
    astray = [file.path for file in ours if {"", ".", ".."} & {*re.split(r"[/\\]", file.path)}]
    if astray:
        raise NotAPackage(
            f"{where} has files whose names lead out of their folder",
            problems=[f"{path!r}: expected a plain path" for path in astray],
            hint="nothing was fetched; no package has such files, so do not trust the repository",
        )
    paths = {file.path for file in ours}
    return ours, tuple(sorted(file.path for file in tree if file.path not in paths))


def _fetch(
    snapshot: HubSnapshot, wanted: "list[RepoFile]", target: Path, on_event: OnEvent | None
) -> None:
    """Config first: no weight is fetched of what is no package."""
    where = f"{snapshot.repo}@{snapshot.commit}"
    _require_package(snapshot, {file.path for file in wanted}, where)
    size = sum(file.size for file in wanted)
    require_space(target, size)
    if on_event is not None:
        on_event(Event("fetch", 0, 0, f"{where}: {len(wanted)} files, {size:,} bytes"))
    folder = snapshot.fetch([file.path for file in wanted], progress=True)
    damaged = damaged_files(folder, wanted)
    for name in damaged:  # the next run fetches these again, and only these
        (folder / name).unlink()
    if damaged:
        raise IntegrityError(
            f"{where}: {len(damaged)} of {len(wanted)} files arrived damaged",
            problems=[f"{name}: {problem}" for name, problem in sorted(damaged.items())],
            hint="run it again: it fetches these files once more, and only these",
        )


def _require_package(snapshot: HubSnapshot, names: Collection[str], where: str) -> None:
    missing = [name for name in (CONFIG, WEIGHTS) if name not in names]
    if missing:
        raise NotAPackage(f"{where} is not a package: it has no {' and no '.join(missing)}")
    folder = snapshot.fetch([CONFIG])
    with _named(folder, where):
        config = read_json_file(folder / CONFIG)
    if not isinstance(config, dict) or config.get("type") not in MODEL_TYPES:
        raise NotAPackage(
            f"{where} is not a package: its {CONFIG} is not that of one",
            hint=f"if it is a checkpoint, masu convert {snapshot.repo} makes a package of it",
        )


def _link(source: Path, target: Path) -> None:
    """The same file under a second name; a copy where the file system has no second names."""
    target.parent.mkdir(exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


@contextmanager
def _named(folder: Path, where: str) -> Iterator[None]:
    """Errors about files of a folder that nobody chose: they name the repository instead."""

    def told(text: str) -> str:
        return text.replace(f"{folder}/", f"{where}: ").replace(str(folder), where)

    try:
        yield
    except MasuError as error:
        problems = map(told, error.problems)
        hint = error.hint and told(error.hint)
        raise type(error)(told(error.message), problems=problems, hint=hint) from error


def _refuse_damaged(folder: Path, where: str, key: str | Path | None) -> None:
    """What arrived is what the Hub has; is it also what masu wrote, and what was signed?"""
    with _named(folder, where):
        problems = damage(check_package(folder))
    problems = [problem.replace(f"{folder}/", "") for problem in problems]
    if problems:
        raise IntegrityError(
            f"{where}: the package is damaged on the Hub itself",
            problems=problems,
            hint="fetching it again will not mend it; tell its owner",
        )
    unsigned = [] if key is None else damage(signature_findings(folder, key))
    if unsigned:
        raise IntegrityError(
            f"{where}: the package is not what the owner of {key} signed",
            problems=unsigned,
            hint="ask its owner for a signature or for the right public key; without --key no"
            " signature is asked for",
        )
