"""`masu.overview` tells packages from sources, and says the same of both."""

import shutil
from pathlib import Path

import pytest
from golden import GOLDEN

import masu
from masu.specs.errors import NotAPackage, SchemaError, SourceNotFound


def test_a_source_is_described_as_the_package_it_becomes() -> None:
    source = masu.overview(GOLDEN / "llama-tied/hf", context=10)
    package = masu.overview(GOLDEN / "llama-tied/engine", context=10)
    assert (source.kind, package.kind) == ("source", "package")
    assert source.summary == package.summary
    assert source.ledger is not None
    assert package.ledger is None


def test_a_written_package_keeps_the_ledger(tmp_path: Path) -> None:
    masu.convert(GOLDEN / "llama-tied/hf", tmp_path / "package", verify=False)
    written = masu.overview(tmp_path / "package")
    assert written.ledger == masu.overview(GOLDEN / "llama-tied/hf").ledger


def test_a_package_that_lacks_a_file_is_not_taken_for_a_source(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "llama-tied/engine", tmp_path / "package")
    (tmp_path / "package/tokenizer.json").unlink()
    with pytest.raises(NotAPackage, match=r"no tokenizer\.json"):
        masu.overview(tmp_path / "package")


def test_a_broken_package_is_an_error(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "llama-tied/engine", tmp_path / "package")
    (tmp_path / "package/config.json").write_text("{}")
    with pytest.raises(SchemaError):
        masu.overview(tmp_path / "package")


def test_nothing_there_is_a_source_not_found(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound):
        masu.overview(tmp_path / "missing")
