"""Inputs that once went wrong are refused now, and so is what two seconds of luck find."""

from pathlib import Path

import pytest
from fuzz_targets import CORPUS, TARGETS, fuzz, problem


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*-*")), ids=lambda path: path.name)
def test_the_corpus_is_harmless(path: Path, tmp_path: Path) -> None:
    target = TARGETS[path.name.partition("-")[0]]
    assert problem(target, path.read_bytes(), tmp_path / "input") is None


@pytest.mark.parametrize("name", TARGETS)
def test_seeded_mutations_are_harmless(name: str) -> None:
    assert list(fuzz(name, 2.0, seed=1)) == []
