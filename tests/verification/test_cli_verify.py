"""`masu verify`: what it prints, writes and ends with."""

import json
from pathlib import Path
from xml.etree import ElementTree

from click.testing import CliRunner, Result
from package_copies import copy_package
from package_faults import PLAIN

from masu.cli import main
from masu.verification.recorded import write_fingerprints

BLOCK = "decoder.transformer.layers.1"


def verify(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["verify", *map(str, arguments)])


def recorded(tmp_path: Path) -> Path:
    folder = copy_package("llama-tied", tmp_path)
    write_fingerprints(folder)
    return folder


def test_yes(tmp_path: Path) -> None:
    result = verify(recorded(tmp_path))
    assert result.exit_code == 0
    assert "unchanged: the package computes what it did at its conversion" in result.stdout


def test_no(tmp_path: Path) -> None:
    folder, junit = recorded(tmp_path), tmp_path / "verify.xml"
    PLAIN["one head negated"].apply(folder)
    result = verify(folder, "--junit", junit)
    assert result.exit_code == 1
    assert f"{BLOCK} diverges by" in result.stdout
    assert f"{BLOCK}.mixer.qkvg_projection.weights" in result.stdout
    [case] = ElementTree.parse(junit).iter("testcase")
    [failure] = case.iter("failure")
    assert BLOCK in failure.attrib["message"]


def test_json(tmp_path: Path) -> None:
    folder = recorded(tmp_path)
    assert json.loads(verify(folder, "--json").stdout)["diverging"] is None
    PLAIN["one sign flipped"].apply(folder)
    result = verify(folder, "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (found["passed"], found["diverging"]["block"]) == (False, BLOCK)
    assert found["diverging"]["tensors"] == [f"{BLOCK}.mlp.down_projection.weights"]


def test_it_cannot_be_said(tmp_path: Path) -> None:
    result = verify(copy_package("llama-tied", tmp_path))
    assert result.exit_code == 2
    assert "--against SOURCE" in result.stderr
    assert verify(tmp_path / "missing").exit_code == 2
