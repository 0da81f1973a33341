"""What a source is that somebody named: a folder, a GGUF file, a file on PyPI, a Hub repository."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from masu.converter.checkpoint import Checkpoint
from masu.converter.sources.borrowed import fetch_texts, with_texts
from masu.converter.sources.folder import open_folder
from masu.converter.sources.hub import NO_FILES, open_hub, pinning
from masu.converter.sources.hub_names import split_hub_name
from masu.converter.sources.listing import list_folder
from masu.converter.sources.pypi import fetch_pypi
from masu.converter.sources.pypi_requirement import Requirement, parse_requirement
from masu.specs.errors import SourceError, SourceNotFound
from masu.specs.models import ModelSpec, did_you_mean, find_model

_PYPI = "pypi:"
_FORMS = (
    "name a folder, a .gguf file, org/name or org/name@revision (Hub), pypi:name==version, "
    "or one of `masu list-models`"
)


@dataclass(frozen=True)
class FolderSource:
    """A local Hugging Face folder."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.resolve().name


@dataclass(frozen=True)
class GGUFSource:
    """A local GGUF file."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem


@dataclass(frozen=True)
class PyPISource:
    """A GGUF file inside a distribution on the package index: `name==version`."""

    requirement: Requirement

    @property
    def name(self) -> str:
        return self.requirement.name


@dataclass(frozen=True)
class HubSource:
    """A Hub repository; `revision` None means `main`."""

    repo: str
    revision: str | None = None

    @property
    def name(self) -> str:
        return self.repo


ResolvedSource: TypeAlias = FolderSource | GGUFSource | PyPISource | HubSource
"""Each has a `name`, by which messages and default output folders call it."""


def resolve(source: str, *, revision: str | None = None) -> ResolvedSource:
    """What `source` names, without opening it; an existing path wins over everything else.

    Args:
        source: path, `pypi:name==version`, `org/name`, `org/name@revision`, or a named model,
            also with `@revision` if it is on the Hub.
        revision: of a Hub repository, where `source` does not name one itself.

    Raises:
        SourceNotFound: a path that does not exist, or no form of a source at all.
        SourceError: the path is neither a folder nor a GGUF file, or a folder of several GGUF
            files without safetensors; a requirement that pins no version; a revision where there
            can be none.
    """
    if source and _exists(_path(source)):
        found = _local(_path(source))
    else:
        found = _elsewhere(source, revision)
    if revision is not None and not isinstance(found, HubSource):
        hint = "leave it out, or name a repository: org/name"
        raise SourceError(f"{source} is not on the Hub, so it has no revision", hint=hint)
    return found


def named_model(source: str) -> ModelSpec | None:
    """The entry of the registry that `source` names; None if it names a path that exists.

    Raises:
        SourceNotFound: no path can have this name.
    """
    if not source or _exists(_path(source)):
        return None
    return find_model(_split_revision(source)[0])


def parse_hub_name(text: str) -> tuple[str, str | None]:
    """`org/name@revision` as repository and revision; None where there is no `@`.

    Raises:
        SourceNotFound: not of that form.
    """
    split = split_hub_name(text)
    if split is None:
        raise SourceNotFound(
            f"{text!r} is neither a path, nor a Hub repository, nor a named model",
            hint=f"{did_you_mean(_split_revision(text)[0])}{_FORMS}",
        )
    return split


def open_source(
    source: ResolvedSource,
    *,
    offline: bool = False,
    cache_dir: Path | None = None,
    endpoint: str | None = None,
    files: Mapping[str, str] = NO_FILES,
    accept: Callable[[dict[str, Any]], None] | None = None,
    on_message: Callable[[str], None] | None = None,
) -> Checkpoint:
    """Open what `resolve` found; no weight is read.

    Args:
        offline: use nothing but caches.
        cache_dir: where downloads are kept; None means each one's own place.
        endpoint, on_message: as for `open_hub`.
        files: text files to take from the Hub in place of the checkpoint's, as in `ModelSpec`.
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
            files=files,
            accept=accept,
            on_message=on_message,
        )
    checkpoint = _open_other(source, offline, cache_dir, on_message)
    if accept is not None:
        accept(dict(checkpoint.config))
    pin = pinning(offline, cache_dir, endpoint, on_message or (lambda line: None))
    return with_texts(checkpoint, fetch_texts(files, pin))


def _open_other(
    source: FolderSource | GGUFSource | PyPISource,
    offline: bool,
    cache_dir: Path | None,
    on_message: Callable[[str], None] | None,
) -> Checkpoint:
    if isinstance(source, PyPISource):
        return _open_pypi(source.requirement, offline, cache_dir, on_message)
    return open_folder(source.path) if isinstance(source, FolderSource) else _open_gguf(source.path)


def _open_pypi(
    wanted: Requirement,
    offline: bool,
    cache_dir: Path | None,
    on_message: Callable[[str], None] | None,
) -> Checkpoint:
    path = fetch_pypi(str(wanted), cache_dir, offline=offline, on_message=on_message)
    checkpoint = _open_gguf(path)
    named = {"kind": "pypi", "name": wanted.name, "revision": wanted.version}
    return replace(checkpoint, identity={**checkpoint.identity, **named})


def _open_gguf(path: Path) -> Checkpoint:
    from masu.converter.sources.gguf import open_gguf  # gguf is slow to import

    return open_gguf(path)


def _path(source: str) -> Path:
    return Path.home() / source[2:] if source.startswith("~/") else Path(source)


def _split_revision(source: str) -> tuple[str, str]:
    """What comes before the first `@`, and the rest with it."""
    name, at, revision = source.partition("@")
    return name, at + revision


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


def _elsewhere(source: str, revision: str | None) -> ResolvedSource:
    """What is named, but no path that exists."""
    name, at_revision = _split_revision(source)
    model = find_model(name)
    if model is not None:
        source = model.repo + at_revision
    if source.startswith(_PYPI):
        return PyPISource(parse_requirement(source.removeprefix(_PYPI)))
    if _looks_like_path(source):
        raise SourceNotFound(f"{source!r} does not exist", hint=_FORMS)
    return _on_hub(source, revision)


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
