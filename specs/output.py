"""A folder that appears whole or not at all: written beside its target, then put in its place."""

import ctypes
import errno
import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from masu.specs.errors import OutputError
from masu.specs.journal import JOURNAL
from masu.specs.jsonfile import read_json_file

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
    "signature.json",
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
def whole_folder(target: Path, *, overwrite: bool, resume: bool = False) -> Iterator[Path]:
    """Yield an empty folder beside `target`; on a clean exit it takes the target's name.

    After an exception the folder is removed, with the parents that were made for it, and whatever
    stood at `target` is untouched. A run that was killed leaves its folder behind, until the next
    one at this target.

    Args:
        resume: yield what a killed run left, if there is a journal and the weights in it, and
            leave it again after an exception.

    Raises:
        OutputError: the target is taken, another run is writing it, or it cannot be written.
    """
    target = target.absolute()
    refuse_occupied(target, overwrite=overwrite)
    staging, aside = (target.with_name(f".{target.name}.masu-{end}") for end in ("partial", "old"))
    with _parents(target), _locked(_lock_of(target), target):
        with _translated(target):
            _recover(target, aside)
            _prepare(staging, resume)
        try:
            yield staging
            refuse_occupied(target, overwrite=overwrite)
            with _translated(target):
                (staging / JOURNAL).unlink(missing_ok=True)
                _sync_files(staging)
                _put_in_place(staging, target, aside)
        except BaseException:
            if not resume or not (staging / JOURNAL).exists():
                shutil.rmtree(staging, ignore_errors=True)
            raise
        shutil.rmtree(staging, ignore_errors=True)  # after an exchange: the old package


def require_space(target: Path, size: int) -> None:
    """Fail before anything is written if the disk cannot take `size` more bytes.

    Raises:
        OutputError: too little free space on the target's file system.
    """
    existing = next(p for p in (target.absolute(), *target.absolute().parents) if p.exists())
    left = target.absolute().with_name(f".{target.name}.masu-partial")
    free = shutil.disk_usage(existing).free + _occupied(left)  # reused or removed
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
        config = read_json_file(target / "config.json", error=OutputError)
    except OutputError:
        return "it has no config.json of a package"
    if not isinstance(config, dict) or config.get("type") not in MODEL_TYPES:
        return "its config.json is not that of a package"
    others = sorted({path.name for path in target.iterdir()} - PACKAGE_FILES)
    return f"it also holds {', '.join(others)}" if others else None


def recover(target: Path) -> None:
    """Put back the package at `target` if a run was killed while it replaced it.

    That can be only where the system cannot exchange two folders in one step.
    """
    target = target.absolute()
    aside = target.with_name(f".{target.name}.masu-old")
    if aside.is_dir() and not os.path.lexists(target):
        with suppress(OutputError), _locked(_lock_of(target), target), suppress(OSError):
            _recover(target, aside)


def _lock_of(target: Path) -> Path:
    return target.with_name(f".{target.name}.masu-lock")


def _occupied(folder: Path) -> int:
    """Bytes on the disk that a folder's files take; 0 if there is no such folder."""
    if folder.is_symlink() or not folder.is_dir():
        return 0
    return sum(512 * path.lstat().st_blocks for path in folder.iterdir())


def _prepare(staging: Path, resume: bool) -> None:
    """An empty folder, or only those files in it with which an interrupted run can go on."""
    kept = {JOURNAL, "model.safetensors"} if resume and (staging / JOURNAL).exists() else set()
    if staging.is_symlink() or not kept:
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        return
    for path in staging.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name not in kept:
            path.unlink()


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
    descriptor = _taken(path, target)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _taken(path: Path, target: Path) -> int:
    """The lock, held: of the very file that has the name, or two runs could hold one each."""
    while True:
        with _translated(target):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            with _translated(target):
                _lock(descriptor, target)
                if _is_named(descriptor, path):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its holder removed it after it was opened here


def _lock(descriptor: int, target: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        raise OutputError(
            f"{target}: another conversion is writing this package",
            hint="wait for it, or choose another folder with -o",
        ) from None


def _is_named(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _put_in_place(staging: Path, target: Path, aside: Path) -> None:
    if not target.exists():
        staging.rename(target)
    elif not _exchange(staging, target):
        try:
            target.rename(aside)
            staging.rename(target)
        finally:  # whatever happened, an interrupt included: the new one, or the old one again
            _recover(target, aside)
    _sync(target.parent)


def _exchange(first: Path, second: Path) -> bool:
    """Swap two folders in one step, where the system has such a step (Linux's renameat2)."""
    if not sys.platform.startswith("linux"):
        return False
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    names = (os.fsencode(first), os.fsencode(second))
    return renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0


def _sync_files(folder: Path) -> None:
    """After this not even a power failure can leave the folder with a file cut short."""
    for path in folder.iterdir():
        if path.is_file():
            _sync(path)
        elif path.is_dir():
            _sync_files(path)
    _sync(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
