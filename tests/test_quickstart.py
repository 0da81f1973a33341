"""The tour: a sound package is reused, a real model is fetched, converted and answers."""

import shutil
from pathlib import Path

import pytest
from golden import GOLDEN

from masu.events import Event
from masu.pipeline import plan
from masu.quickstart import SOURCE, quickstart
from masu.specs.errors import OutputError


def test_a_sound_package_is_used_as_it_is(tmp_path: Path) -> None:
    """Nothing is fetched: the package there is another model, and it is the one that answers."""
    shutil.copytree(GOLDEN / "llama-tied/engine", tmp_path / "package")
    events: list[Event] = []
    done = quickstart("hello", tmp_path / "package", on_event=events.append)
    assert done.conversion is None
    assert [event.stage for event in events] == ["check", "load", "answer"]
    assert list(done.seconds) == ["check", "load", "answer"]
    assert done.answer == quickstart("hello", tmp_path / "package").answer


@pytest.mark.nightly
def test_from_nothing_to_an_answer(tmp_path: Path) -> None:
    """CI does the same by the README's first command, in an environment of its own."""
    first = quickstart(out=tmp_path / "package")
    assert "Paris" in first.answer
    assert first.conversion is not None
    assert first.conversion.verdict is not None
    assert first.conversion.verdict.passed
    second = quickstart(out=tmp_path / "package")
    assert second.conversion is None
    assert second.answer == first.answer


@pytest.mark.slow
def test_the_download_is_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another package of the same source: no index is asked, and pip would not find one."""
    plan(SOURCE, tmp_path / "first")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    events: list[Event] = []
    plan(SOURCE, tmp_path / "second", on_event=events.append)
    [message] = [event.message for event in events if event.stage == "fetch"]
    assert message.startswith("using ")


@pytest.mark.slow
def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OutputError):
        quickstart(out=tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
