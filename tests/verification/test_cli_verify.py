"""`masu verify`: what it prints, writes and ends with."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from golden import GOLDEN
from package_copies import copy_package
from package_faults import PLAIN

import masu
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


def swapped_ids(tokenizer: dict[str, Any]) -> None:
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]


EDITS: dict[str, tuple[str, Callable[[dict[str, Any]], object], str]] = {
    "ids": ("tokenizer.json", swapped_ids, "tokenizer.json: model.vocab.a: expected "),
    "template": (
        "config.json",
        lambda c: c["token_codec_config"].update(prompt_template="{{ messages }}"),
        "config.json: token_codec_config.prompt_template: expected ",
    ),
    "stop tokens": (
        "config.json",
        lambda c: c["generation_config"].update(stop_token_ids=[1, 2, 3]),
        "config.json: generation_config.stop_token_ids: expected ",
    ),
    "temperature": (
        "config.json",
        lambda c: c["generation_config"].update(temperature=0.7),
        "config.json: generation_config.temperature: expected 0.6, found 0.7",
    ),
}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Settings of every kind that a manifest records: overrides, a recipe, a dtype, an engine."""
    out = tmp_path_factory.mktemp("honest") / "package"
    spec = masu.ModelSpec(repo="", user_role="person", default_system_prompt="Be brief.")
    source = GOLDEN / "llama-tied" / "hf"
    masu.convert(source, out, spec=spec, recipe="int8", dtype="float16", verify=False)
    return out


@pytest.mark.parametrize("name", EDITS)
def test_against_the_source_the_text_side_counts(name: str, honest: Path, tmp_path: Path) -> None:
    """All hashes are those of the edited files, and every number is right."""
    file, edit, said = EDITS[name]
    folder = Path(shutil.copytree(honest, tmp_path / "package"))
    values = json.loads((folder / file).read_bytes())
    edit(values)
    (folder / file).write_text(json.dumps(values))
    manifest = json.loads((folder / "manifest.json").read_bytes())
    manifest["files"][file] = hashlib.sha256((folder / file).read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    result = verify(folder, "--against", GOLDEN / "llama-tied" / "hf")
    assert result.exit_code == 1, result.output
    assert f"no: the package is not what the source says: {said}" in result.stdout


def test_against_the_source_an_honest_package_passes(honest: Path) -> None:
    result = verify(honest, "--against", GOLDEN / "llama-tied" / "hf")
    assert result.exit_code == 0, result.output
