"""A folder that appears whole or not at all: written beside its target, then put in its place."""

import ctypes
import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from masu.specs.errors import OutputError

MODEL_TYPES = (
    "ClassifierModelConfig",
    "LanguageModelConfig",
    "SpeculatorModelConfig",
    "TTSModelConfig",
)
PACKAGE_FILES = {
    "config.json",
    "encoding.json",
    "fingerprints.json",
    "manifest.json",
    "model.safetensors",
    "report.json",
    "speculator",
    "tokenizer.json",
}
"""What may lie in a package: the engine's files and masu's own."""

RENAME_EXCHANGE = 2
AT_FDCWD = -100


def refuse_occupied(target: Path, *, overwrite: bool) -> None:
    """Fail early if `target` may not be written.

    Only a package is ever replaced, and only when asked: a folder that holds anything else stays.

    Raises:
        OutputError: the target exists, and either is no package or was not to be replaced.
    """
    if not os.path.lexists(target):
        return
    foreign = _foreign(target)
    if foreign is not None:
        raise OutputError(
            f"{target}: exists and is not a masu or lalamo package: {foreign}",
            hint="choose another folder with -o",
        )
    if not overwrite:
        raise OutputError(
            f"{target}: a package is already there",
            hint="--overwrite replaces it once the new one is complete",
        )


@contextmanager
def whole_folder(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield an empty folder beside `target`; on a clean exit it takes the target's name.

    After an exception the folder is removed, with the parents that were made for it, and whatever
    stood at `target` is untouched.

    Raises:
        OutputError: the target is taken, another run is writing it, or it cannot be written.
    """
    target = target.absolute()
    refuse_occupied(target, overwrite=overwrite)
    staging, aside = (target.with_name(f".{target.name}.masu-{end}") for end in ("partial", "old"))
    with _parents(target), _locked(target.with_name(f".{target.name}.masu-lock"), target):
        with _translated(target):
            _recover(target, aside)
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir()
        try:
            yield staging
            refuse_occupied(target, overwrite=overwrite)
            with _translated(target):
                _sync_folder(staging)
                _put_in_place(staging, target, aside)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def require_space(target: Path, size: int) -> None:
    """Fail before anything is written if the disk cannot take `size` more bytes.

    Raises:
        OutputError: too little free space on the target's file system.
    """
    existing = next(p for p in (target.absolute(), *target.absolute().parents) if p.exists())
    free = shutil.disk_usage(existing).free
    if free < size:
        raise OutputError(
            f"{target}: the package needs {size:,} bytes, {free:,} are free",
            hint="free some space or choose another disk with -o",
        )


def _foreign(target: Path) -> str | None:
    """What shows that a path is not a package, and so nothing that may be replaced."""
    if target.is_symlink() or not target.is_dir():
        return "it is no folder"
    try:
        config = json.loads((target / "config.json").read_bytes())
    except (OSError, ValueError):
        return "it has no config.json of a package"
    if not isinstance(config, dict) or config.get("type") not in MODEL_TYPES:
        return "its config.json is not that of a package"
    others = sorted({path.name for path in target.iterdir()} - PACKAGE_FILES)
    return f"it also holds {', '.join(others)}" if others else None


@contextmanager
def _parents(target: Path) -> Iterator[None]:
    """The folders above the target; those that had to be made go again after an exception."""
    made = [parent for parent in target.parents if not parent.exists()]
    with _translated(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for parent in made:  # from the deepest up; one that has got other content stays
            with suppress(OSError):
                parent.rmdir()
        raise


def _recover(target: Path, aside: Path) -> None:
    """Finish what a killed run left: the old package is put back, or was replaced already."""
    if not aside.exists():
        return
    if target.exists():
        shutil.rmtree(aside)
    else:
        aside.rename(target)


@contextmanager
def _translated(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"{target}: cannot be written: {error.strerror or error}") from error


@contextmanager
def _locked(path: Path, target: Path) -> Iterator[None]:
    """Hold the target against other runs; the lock goes with the process that holds it."""
    with _translated(target):
        file = path.open("w")
    with file as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OutputError(
                f"{target}: another conversion is writing this package",
                hint="wait for it, or choose another folder with -o",
            ) from None
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _put_in_place(staging: Path, target: Path, aside: Path) -> None:
    if not target.exists():
        staging.rename(target)
    elif not _exchange(staging, target):
        target.rename(aside)
        try:
            staging.rename(target)
        except OSError:
            aside.rename(target)
            raise
        shutil.rmtree(aside)
    _sync_folder(target.parent)


def _exchange(first: Path, second: Path) -> bool:
    """Swap two folders in one step, where the system has such a step (Linux's renameat2)."""
    if not sys.platform.startswith("linux"):
        return False
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    names = (os.fsencode(first), os.fsencode(second))
    return renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
