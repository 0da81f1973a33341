"""Folders that appear whole or not at all."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from masu.specs import output
from masu.specs.errors import OutputError
from masu.specs.output import require_space, whole_folder


def fill(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(json.dumps({"type": "LanguageModelConfig", "is": text}))
    (folder / "model.safetensors").write_text(text)


def make(target: Path, text: str, *, overwrite: bool = False) -> None:
    with whole_folder(target, overwrite=overwrite) as folder:
        fill(folder, text)


def fail_halfway(target: Path) -> None:
    with whole_folder(target, overwrite=True) as folder:
        fill(folder, "half")
        raise KeyError


def contents(target: Path) -> str:
    config = json.loads((target / "config.json").read_text())
    return config["is"] + (target / "model.safetensors").read_text()


def test_the_folder_appears_with_everything_and_nothing_beside_it(tmp_path: Path) -> None:
    make(tmp_path / "deep" / "package", "new")
    assert contents(tmp_path / "deep" / "package") == "newnew"
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["package"]


def test_after_an_exception_there_is_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        fail_halfway(tmp_path / "package")
    assert not list(tmp_path.iterdir())


def test_a_package_is_replaced_only_when_asked(tmp_path: Path) -> None:
    target = tmp_path / "package"
    make(target, "old")
    with pytest.raises(OutputError, match="already there"):
        make(target, "new")
    assert contents(target) == "oldold"
    make(target, "new", overwrite=True)
    assert contents(target) == "newnew"
    assert list(tmp_path.iterdir()) == [target]


def test_after_a_failed_replacement_the_old_package_is_there(tmp_path: Path) -> None:
    target = tmp_path / "package"
    make(target, "old")
    with pytest.raises(KeyError):
        fail_halfway(target)
    assert contents(target) == "oldold"
    assert list(tmp_path.iterdir()) == [target]


def test_replacing_works_without_an_exchange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "_exchange", lambda first, second: False)
    target = tmp_path / "package"
    make(target, "old")
    make(target, "new", overwrite=True)
    assert contents(target) == "newnew"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    "kind", ["file", "other folder", "empty folder", "link", "checkpoint", "package and notes"]
)
def test_what_is_no_package_is_never_replaced(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    if kind == "file":
        target.write_text("mine")
    elif kind == "link":
        make(tmp_path / "elsewhere", "old")
        target.symlink_to(tmp_path / "elsewhere")
    elif kind == "checkpoint":
        target.mkdir()
        (target / "config.json").write_text('{"model_type": "llama"}')
        (target / "model.safetensors").write_text("mine")
    elif kind == "package and notes":
        make(target, "old")
        (target / "notes.txt").write_text("mine")
    else:
        target.mkdir()
        if kind == "other folder":
            (target / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="not a masu or lalamo package"):
        make(target, "new", overwrite=True)
    assert target.exists()
    if kind in ("other folder", "package and notes"):
        assert (target / "notes.txt").read_text() == "mine"
    if kind == "checkpoint":
        assert (target / "model.safetensors").read_text() == "mine"


def test_parents_that_were_made_go_with_a_failure(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        fail_halfway(tmp_path / "a" / "b" / "package")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("replaced", [True, False])
def test_what_a_killed_replacement_left_is_set_right(replaced: bool, tmp_path: Path) -> None:
    """Killed after the old package went aside, or after the new one took its place."""
    if replaced:
        make(tmp_path / "package", "new")
    make(tmp_path / ".package.masu-old", "old")
    with pytest.raises(KeyError):
        fail_halfway(tmp_path / "package")
    assert contents(tmp_path / "package") == ("newnew" if replaced else "oldold")
    assert [path.name for path in tmp_path.iterdir()] == ["package"]


# What a second process does: it holds the target until its standard input ends.
HOLD = """
import sys
from pathlib import Path
from masu.specs.output import whole_folder
with whole_folder(Path(sys.argv[1]), overwrite=False) as folder:
    (folder / "config.json").write_text('{"type": "LanguageModelConfig", "is": "first"}')
    (folder / "model.safetensors").write_text("first")
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_of_two_runs_at_one_target_one_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "package"
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(target)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        with pytest.raises(OutputError, match="another conversion"):
            make(target, "second")
    assert other.returncode == 0
    assert contents(target) == "firstfirst"


# What several processes do at once: each replaces the package as often as it gets to, until killed.
REPLACE = """
import sys
from pathlib import Path
from masu.specs.errors import OutputError
from masu.specs.output import whole_folder
print("ready", flush=True)
sys.stdin.readline()
for number in range(10**6):
    try:
        with whole_folder(Path(sys.argv[1]), overwrite=True) as folder:
            text = f"{sys.argv[2]} {number} " * 1000
            kind = '"type": "LanguageModelConfig"'
            (folder / "config.json").write_text('{%s, "is": "%s"}' % (kind, text))
            (folder / "model.safetensors").write_text(text)
        print("won", flush=True)
    except OutputError as error:
        assert "another conversion" in str(error), error
        print("refused", flush=True)
"""


def whole_at(target: Path) -> bool:
    """Whether the package there is of one writer; what was replaced meanwhile is looked at anew."""
    while True:
        folder = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
        try:
            config, weights = (
                Path(f"/proc/self/fd/{folder}/{name}").read_text()
                for name in ("config.json", "model.safetensors")
            )
        except FileNotFoundError:
            continue
        finally:
            os.close(folder)
        return json.loads(config)["is"] == weights


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="elsewhere no exchange in one step"
)
def test_many_runs_at_one_target_replace_it_whole_until_they_are_killed(tmp_path: Path) -> None:
    """Four at a time; one who looks never misses the package, nor sees halves of two."""
    target = tmp_path / "package"
    make(target, "old")
    said = set()
    runs = [
        subprocess.Popen([sys.executable, "-c", REPLACE, str(target), f"run {number}"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for number in range(4)
    ]  # fmt: skip
    try:
        for run in runs:
            assert run.stdout is not None
            assert run.stdout.readline() == "ready\n"
        for run in runs:
            assert run.stdin is not None
            run.stdin.write("go\n")
            run.stdin.flush()
        for run in runs:
            assert run.stdout is not None
            for _ in range(20):
                said.add(run.stdout.readline())
                assert all(whole_at(target) for _ in range(20))
    finally:
        for run in runs:
            run.kill()
            run.communicate()
    assert said == {"won\n", "refused\n"}
    assert whole_at(target)
    make(target, "new", overwrite=True)
    assert contents(target) == "newnew"
    assert list(tmp_path.iterdir()) == [target]


def test_leftovers_of_a_killed_run_are_no_obstacle(tmp_path: Path) -> None:
    leftover = tmp_path / ".package.masu-partial"
    leftover.mkdir()
    (leftover / "model.safetensors").write_text("half")
    (tmp_path / ".package.masu-lock").touch()
    make(tmp_path / "package", "new")
    assert contents(tmp_path / "package") == "newnew"
    assert [p.name for p in tmp_path.iterdir()] == ["package"]


def test_too_little_space_is_said_before_anything_is_written(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    require_space(tmp_path / "a" / "b", free // 2)
    with pytest.raises(OutputError, match="are free"):
        require_space(tmp_path / "a" / "b", free * 2)
    assert not list(tmp_path.iterdir())
