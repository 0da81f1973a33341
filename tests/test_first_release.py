"""A package of masu's first release, kept for ever, is opened, found sound and migrated."""

import json
from pathlib import Path

import masu
from masu.specs.check import check_package
from masu.specs.package import Package

PACKAGE = Path(__file__).parent / "first_release/package"


def test_it_is_the_first_release() -> None:
    """Nobody has written it anew."""
    manifest = json.loads((PACKAGE / "manifest.json").read_text())
    assert (manifest["masu_version"], manifest["format_version"]) == ("0.1.0", 1)
    assert manifest["source"]["kind"] == "folder"


def test_it_opens_and_every_hash_holds() -> None:
    assert Package.open(PACKAGE).manifest is not None
    assert [found for found in check_package(PACKAGE) if found.is_problem] == []


def test_its_manifest_is_written_with_the_same_bytes() -> None:
    manifest = Package.open(PACKAGE).manifest
    assert manifest is not None
    assert manifest.to_bytes() == (PACKAGE / "manifest.json").read_bytes()


def test_it_goes_to_the_older_release_and_back(tmp_path: Path) -> None:
    masu.migrate(PACKAGE, tmp_path / "old", engine="uzu-0.5")
    masu.migrate(tmp_path / "old", tmp_path / "back")
    for path in PACKAGE.iterdir():
        assert (tmp_path / "back" / path.name).read_bytes() == path.read_bytes()
