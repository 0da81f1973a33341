"""Conversions that are killed, stopped or starved leave a whole package or none, and can go on."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from golden import GOLDEN

import masu
import masu.pipeline
from masu.specs.errors import MasuError, OutputError
from masu.specs.package import Package

SCRIPT = Path(__file__).with_name("interrupted_run.py")
CASE = "qwen2"


def run(
    source: Path, out: Path, name: str = "SIGKILL", moment: str = "-", *options: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), str(source), str(out), name, moment, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def contents(package: Path) -> dict[str, bytes]:
    """Every file but the report, which tells of the run and not only of the package."""
    files = (path for path in sorted(package.iterdir()) if path.name != "report.json")
    return {path.name: path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What an uninterrupted conversion writes."""
    out = tmp_path_factory.mktemp("whole") / "package"
    masu.pipeline.convert(GOLDEN / CASE / "hf", out, verify=False)
    return contents(out)


@pytest.mark.parametrize("moment", ["locked", "60000", "after small files", "sync"])
def test_a_killed_run_leaves_nothing_and_is_resumed(
    moment: str, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    source, out = GOLDEN / CASE / "hf", tmp_path / "package"
    assert run(source, out, "SIGKILL", moment).returncode == -signal.SIGKILL
    assert not out.exists()
    masu.pipeline.convert(source, out, verify=False, resume=True)
    assert contents(out) == whole
    assert list(tmp_path.iterdir()) == [out]


def test_resuming_does_not_write_again_what_is_there(
    tmp_path: Path, whole: dict[str, bytes]
) -> None:
    """The first tensors are damaged or kept; the journal tells which, and only those are made."""
    source, out = GOLDEN / CASE / "hf", tmp_path / "package"
    size = len(whole["model.safetensors"])
    run(source, out, "SIGKILL", str(size // 2))
    weights = tmp_path / ".package.masu-partial" / "model.safetensors"
    begin = 8 + int.from_bytes(whole["model.safetensors"][:8], "little")
    inode = weights.stat().st_ino
    with weights.open("r+b") as file:  # a torn page in what the journal says is complete
        file.seek(begin)
        file.write(bytes(64))
    with (tmp_path / ".package.masu-partial" / ".masu-journal").open("ab") as file:
        file.write(b'{"tensor": "torn')
    masu.pipeline.convert(source, out, verify=False, resume=True)
    assert contents(out) == whole
    assert (out / "model.safetensors").stat().st_ino == inode


def test_another_conversion_is_not_continued(tmp_path: Path, whole: dict[str, bytes]) -> None:
    source, out = shutil.copytree(GOLDEN / CASE / "hf", tmp_path / "source"), tmp_path / "package"
    run(source, out, "SIGKILL", "60000")
    with pytest.raises(OutputError, match="cannot be continued"):
        masu.pipeline.convert(source, out, verify=False, resume=True, dtype="float16")
    shard = next(source.glob("*.safetensors"))
    os.utime(shard, ns=(1, 1))  # changed since, for all that one can tell without reading it
    with pytest.raises(OutputError, match="cannot be continued"):
        masu.pipeline.convert(source, out, verify=False, resume=True)
    masu.pipeline.convert(source, out, verify=False)
    assert contents(out) == whole


def test_a_run_without_resume_starts_over(tmp_path: Path, whole: dict[str, bytes]) -> None:
    source, out = GOLDEN / CASE / "hf", tmp_path / "package"
    run(source, out, "SIGKILL", "60000")
    left = tmp_path / ".package.masu-partial" / "model.safetensors"
    left.write_bytes(b"x" * 2 * len(whole["model.safetensors"]))
    masu.pipeline.convert(source, out, verify=False)
    assert contents(out) == whole


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", 130)])
def test_a_signal_cleans_up(name: str, code: int, tmp_path: Path) -> None:
    ended = run(GOLDEN / CASE / "hf", tmp_path / "deep" / "package", name, "60000")
    assert (ended.returncode, list(tmp_path.iterdir())) == (code, []), ended.stderr
    assert "Traceback" not in ended.stderr


def test_with_resume_a_signal_keeps_what_is_done(tmp_path: Path, whole: dict[str, bytes]) -> None:
    source, out = GOLDEN / CASE / "hf", tmp_path / "package"
    assert run(source, out, "SIGTERM", "60000", "--resume").returncode == 143
    assert [path.name for path in tmp_path.iterdir()] == [".package.masu-partial"]
    assert run(source, out, "SIGTERM", "-", "--resume").returncode == 0
    assert contents(out) == whole


def test_a_source_that_fails_at_its_last_tensor(tmp_path: Path) -> None:
    """Its file is cut short after it was planned: while it is read, nothing else was wrong."""
    source = shutil.copytree(GOLDEN / "llama" / "hf", tmp_path / "source")
    weights = source / "model.safetensors"

    def cut(event: object) -> None:
        if weights.stat().st_size > 1000:
            os.truncate(weights, weights.stat().st_size - 100)

    with pytest.raises(MasuError, match=r"cut short|ends at byte"):
        masu.pipeline.convert(source, tmp_path / "out" / "package", verify=False, on_event=cut)
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system")
def test_a_target_that_cannot_be_written(tmp_path: Path) -> None:
    command = ["mount", "-t", "tmpfs", "-o", "ro,size=64m", "tmpfs", str(tmp_path)]
    if subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("this machine does not let root mount")
    try:
        with pytest.raises(OutputError, match="cannot be written: Read-only file system"):
            masu.pipeline.convert(GOLDEN / CASE / "hf", tmp_path / "p", verify=False)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small file system")
def test_a_full_disk_loses_nothing(tmp_path: Path, whole: dict[str, bytes]) -> None:
    """The space is there when it is asked for, and then somebody else takes it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    size = sum(map(len, whole.values())) + 2**18
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
    if subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("this machine does not let root mount")

    def fill(event: object) -> None:
        if not (disk / "other").exists():
            (disk / "other").write_bytes(bytes(size - 2**17 - 2**16))

    try:
        with pytest.raises(OutputError) as caught:
            masu.pipeline.convert(GOLDEN / CASE / "hf", disk / "p", verify=False, on_event=fill)
        assert "No space left" in str(caught.value) or "are free" in str(caught.value)
        assert [path.name for path in disk.iterdir()] == ["other"]
        (disk / "other").unlink()
        masu.pipeline.convert(GOLDEN / CASE / "hf", disk / "p", verify=False)
        assert contents(disk / "p") == whole
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_of_many_conversions_at_one_target_one_wins(
    tmp_path: Path, whole: dict[str, bytes]
) -> None:
    """Six at once: the others are refused, whether it is still at work or done."""
    out, start = tmp_path / "package", threading.Barrier(6)

    def convert(number: int) -> str:
        start.wait()
        try:
            masu.pipeline.convert(GOLDEN / CASE / "hf", out, verify=False)
        except OutputError as refusal:
            return refusal.message
        return "won"

    with ThreadPoolExecutor(6) as runs:
        said = sorted(runs.map(convert, range(6)))
    assert said.count("won") == 1
    refusals = "another conversion is writing this package", "a package is already there"
    assert all(message.endswith(refusals) for message in said if message != "won")
    assert contents(out) == whole
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("reader", ["load", "check", "convert"])
def test_a_package_that_a_killed_run_put_aside_is_found_again(
    reader: str, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    """Where folders cannot be exchanged, the old one is under another name for a moment."""
    out = tmp_path / "package"
    masu.pipeline.convert(GOLDEN / CASE / "hf", out, verify=False)
    out.rename(tmp_path / ".package.masu-old")
    if reader == "load":
        Package.open(out)
    elif reader == "check":
        assert not [found for found in masu.check(out) if found.is_problem]
    else:
        with pytest.raises(OutputError, match="already there"):
            masu.pipeline.convert(GOLDEN / CASE / "hf", out, verify=False)
    assert contents(out) == whole
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.nightly
def test_killed_at_fifty_random_moments(tmp_path: Path, whole: dict[str, bytes]) -> None:
    """In turn a new package and one that replaces another: always the old, the new or none."""
    chance = random.Random(9)
    source, out = GOLDEN / CASE / "hf", tmp_path / "package"
    steps = ["locked", "small files", "after small files", "sync", "place", "after place"]
    for _ in range(25):
        size = len(whole["model.safetensors"])
        moment = chance.choice([*steps, *[str(chance.randrange(size)) for _ in steps]])
        before = contents(out) if out.exists() else None
        options = ["--overwrite"] if before else []
        run(source, out, "SIGKILL", moment, *options)
        assert (contents(out) if out.exists() else None) in (before, whole)
        again = str(chance.randrange(size))
        run(source, out, "SIGKILL", again, "--overwrite", "--resume")
        assert (contents(out) if out.exists() else None) in (before, whole)
        masu.pipeline.convert(source, out, verify=False, overwrite=True, resume=True)
        assert contents(out) == whole
        assert list(tmp_path.iterdir()) == [out]
        Package.open(out)
        if chance.random() < 0.5:
            shutil.rmtree(out)
