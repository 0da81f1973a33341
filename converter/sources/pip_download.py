"""One wheel from a package index, by pip: downloaded, not installed, none of its code run."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from masu.converter.sources.pypi_requirement import Requirement
from masu.specs.errors import SourceError, SourceNotFound

_NO_PIP = "No module named pip"
_NOT_FOUND = "No matching distribution found"


def download_wheel(
    requirement: Requirement,
    folder: Path,
    index_arguments: Sequence[str] = (),
    *,
    python: str = sys.executable,
) -> Path:
    """Download a wheel into a folder.

    Args:
        index_arguments: further options of `pip download`, to use another index.
        python: the interpreter whose pip is used.

    Raises:
        SourceNotFound: the index has no wheel of that name and version.
        SourceError: no pip, no network, or whatever else pip has to say.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="download-") as scratch:
        _run_pip(python, requirement, [f"--dest={scratch}", *index_arguments])
        [wheel] = Path(scratch).glob("*.whl")
        return wheel.replace(folder / wheel.name)


def _run_pip(python: str, requirement: Requirement, options: Sequence[str]) -> None:
    # -P: without it, `-m pip` would run a pip.py of the current folder.
    command = [python, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    quiet = ["--no-input", "--disable-pip-version-check", "--progress-bar=off"]
    result = subprocess.run(
        [*command, *quiet, *options, str(requirement)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if result.returncode:
        raise _failure(python, requirement, result.stderr)


def _failure(python: str, requirement: Requirement, output: str) -> SourceError:
    lines = output.splitlines()
    if any(line.endswith(_NO_PIP) for line in lines):
        return SourceError(
            f"{requirement} cannot be downloaded: {python} has no pip",
            hint=f"{python} -m ensurepip",
        )
    said = [line for line in lines if line.startswith("ERROR:")] or lines[-5:]
    kind = SourceNotFound if any(_NOT_FOUND in line for line in said) else SourceError
    return kind(
        f"{requirement} cannot be downloaded; pip says:",
        problems=said,
        hint="is the name right, does that version exist as a wheel, and is the index reachable?",
    )
