"""A package for another engine release: the same values in that release's spelling."""

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from masu.specs.container import Container
from masu.specs.container_writer import WrittenHashes, write_container
from masu.specs.engine import Candidate, EngineProfile
from masu.specs.engines import DEFAULT_ENGINE, find_engine
from masu.specs.errors import EngineError
from masu.specs.formats.d4s4 import D4S4Spec
from masu.specs.jsonfile import read_json_file
from masu.specs.manifest import MANIFEST, Manifest
from masu.specs.model import MODEL_CONFIG
from masu.specs.output import refuse_occupied, require_space, whole_folder
from masu.specs.package import (
    CONFIG,
    TOKENIZER,
    WEIGHTS,
    Package,
    canonical_config,
    read_manifest,
    require_package,
)
from masu.specs.package_writer import PackageContents, text_vectors
from masu.specs.respelling import respelled
from masu.specs.response_format import has_response_format, without_response_format
from masu.specs.signature import SIGNATURE
from masu.specs.text_vectors import TextVector

CARRIED = "token_codec_config.reasoning_config"
"""What the older dialect has no words for and the manifest keeps."""

SPECULATOR = "speculator"


@dataclass(frozen=True)
class Migration:
    """What `migrate` did.

    Attributes:
        path: the new package.
        source: the dialect of the old one.
        engine: the release that the new one is for.
        repaired: places of config.json that were written between two releases.
        carried: places that only the manifest has now; a migration back restores them.
        restored: places that came back from the manifest.
        refusals: why the release will not load the package all the same.
        left_out: files that are of the old package only: its signature.
    """

    path: Path
    source: str
    engine: str
    repaired: tuple[str, ...]
    carried: tuple[str, ...]
    restored: tuple[str, ...]
    refusals: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def migrate(
    package: Path | str,
    out: Path | str,
    *,
    engine: str = DEFAULT_ENGINE,
    overwrite: bool = False,
) -> Migration:
    """Write a package in the dialect of another engine release, tensors copied as they are.

    Memory does not grow with the package. The manifest is carried over, with the hashes of the
    new files; the way back gives the same bytes. Whatever else lies in the folder is copied.

    Raises:
        PackageError: there is no sound package.
        EngineError: it is in this dialect already, or holds what the dialect cannot say.
        OutputError: the target is taken or cannot be written.
    """
    source, target, profile = Path(package), Path(out), find_engine(engine)
    refuse_occupied(target, overwrite=overwrite)
    work = _prepare(source, profile)
    require_space(target, work.contents.layout.size)
    with whole_folder(target, overwrite=overwrite) as folder:
        _write(work, folder)
    return Migration(
        path=target,
        source=work.package.dialect.name,
        engine=profile.name,
        repaired=work.repaired,
        carried=tuple(work.carried or ()),
        restored=work.restored,
        refusals=_refusals(work),
        left_out=(SIGNATURE,) if (source / SIGNATURE).exists() else (),
    )


@dataclass(frozen=True)
class _Work:
    """Everything known before a byte is written; `speculator` is the package inside."""

    package: Package
    profile: EngineProfile
    contents: PackageContents
    carried: dict[str, Any] | None
    repaired: tuple[str, ...]
    restored: tuple[str, ...]
    speculator: "_Work | None"


def _prepare(source: Path, profile: EngineProfile) -> _Work:
    package, repaired = _open(source)
    if package.dialect.name == profile.dialect.name and not repaired:
        raise EngineError(
            f"{source} is written for {profile.name} already",
            hint="choose another release with --engine; `masu check` tells what is wrong with it",
        )
    values = json.loads(package.config.model_dump_json())
    restored = _restore(values, package.manifest)
    carried = _take_out(values, package, profile)
    config = MODEL_CONFIG.validate_json(json.dumps(values))
    contents = respelled(package, config, profile.dialect)
    _refuse_inexpressible(source, package, contents, profile)
    inside = source / SPECULATOR
    speculator = _prepare(inside, profile) if (inside / CONFIG).is_file() else None
    return _Work(package, profile, contents, carried, repaired, restored, speculator)


def _open(source: Path) -> tuple[Package, tuple[str, ...]]:
    """The package, also one written between two releases, and what of it had to be repaired."""
    require_package(source)
    raw = read_json_file(source / CONFIG)
    if not has_response_format(raw):
        return Package.open(source), ()
    config, dialect = canonical_config(without_response_format(raw), str(source / CONFIG))
    container = Container.open(source / WEIGHTS)
    package = Package.bind(source, config, dialect, container, read_manifest(source))
    return package, ("token_codec_config.response_format",)


def _restore(values: dict[str, Any], manifest: Manifest | None) -> tuple[str, ...]:
    """Put what an earlier migration kept in the manifest back into its places."""
    carried = {} if manifest is None else manifest.carried or {}
    unknown = [
        f"{place}: not a value that masu keeps there" for place in carried.keys() - {CARRIED}
    ]
    if unknown:
        raise EngineError("manifest.json carries values of unknown places", problems=unknown)
    if CARRIED in carried:
        values["token_codec_config"]["reasoning_config"] = carried[CARRIED]
    return tuple(carried)


def _take_out(
    values: dict[str, Any], package: Package, profile: EngineProfile
) -> dict[str, Any] | None:
    """What the manifest has to keep for the way back; None if there is nothing."""
    codec = values.get("token_codec_config", {})
    reasoning = codec.get("reasoning_config")
    if reasoning is None or profile.dialect.name == DEFAULT_ENGINE:
        return None
    if package.manifest is None:
        raise EngineError(
            f"{package.path} cannot be written for {profile.name}",
            problems=[f"{CARRIED}: no such field there, and no manifest.json that could keep it"],
            hint="set it to null if the model's reasoning efforts may go",
        )
    codec["reasoning_config"] = None
    return {CARRIED: reasoning}


def _refuse_inexpressible(
    source: Path, package: Package, contents: PackageContents, profile: EngineProfile
) -> None:
    """Fields without words, and weight formats that the release's packages never had."""
    problems = [
        f"{path}: D4S4 is of a later release; keep the table in another format"
        for path, format_ in package.formats.items()
        if isinstance(format_, D4S4Spec) and profile.dialect.name != DEFAULT_ENGINE
    ]
    try:
        contents.dialect.encode_config(contents.config.model_dump())
        _ = contents.spelled
    except EngineError as error:
        problems += error.problems or (error.message,)
    if problems:
        raise EngineError(f"{source} cannot be written for {profile.name}", problems=problems)


def _write(work: _Work, folder: Path) -> None:
    contents, source = work.contents, work.package.path
    written = write_container(folder / WEIGHTS, contents.spelled, contents.metadata)
    (folder / CONFIG).write_bytes(contents.config_json)
    if (source / TOKENIZER).exists():
        (folder / TOKENIZER).write_bytes(contents.tokenizer)
    if work.package.manifest is not None:
        manifest = _manifest(work, work.package.manifest, written)
        (folder / MANIFEST).write_bytes(manifest.to_bytes())
    if work.speculator is not None:
        (folder / SPECULATOR).mkdir()
        _write(work.speculator, folder / SPECULATOR)
    _copy_others(source, folder)


def _manifest(work: _Work, old: Manifest, written: WrittenHashes) -> Manifest:
    """The same account with the new files' hashes; the version stays that of the conversion."""
    files = {**old.files, "model.safetensors: header": written.header}
    files["config.json"] = hashlib.sha256(work.contents.config_json).hexdigest()
    updates = {
        "engine": work.profile.name,
        "files": files,
        "tensors": written.arrays,
        "carried": work.carried,
        "text_vectors": _text_vectors(work.contents, old),
    }
    return old.model_copy(update=updates)


def _text_vectors(contents: PackageContents, old: Manifest) -> tuple[TextVector, ...]:
    """Those of the new dialect: what it has no words for no longer shapes a prompt.

    A package without vectors gets none.
    """
    stops = {vector.id: vector.origins for vector in old.text_vectors if vector.kind == "stop"}
    return text_vectors(contents, stops) if old.text_vectors else ()


def _copy_others(source: Path, folder: Path) -> None:
    """Everything beside the files of a package: reports, encodings, the shapes of drafts.

    Not a signature: it is over the old manifest.
    """
    for path in sorted(source.iterdir()):
        target = folder / path.name
        if target.exists() or path.name == SIGNATURE:
            continue
        if path.is_dir():
            shutil.copytree(path, target, symlinks=True)
        else:
            shutil.copy2(path, target, follow_symlinks=False)


def _refusals(work: _Work) -> tuple[str, ...]:
    candidate = Candidate(work.contents.config, work.package.formats, work.package.dtype)
    judged = work.profile.judge(candidate)
    return tuple(str(found) for found in judged if found.rule.effect == "refused")
