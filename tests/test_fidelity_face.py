"""`masu.fidelity` and `masu info --fidelity`: what a caller sees of a measurement."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from golden import GOLDEN
from measured_reports import PACKAGE, REFERENCE, TEXT, fidelity, hostile_report
from package_copies import copy_package

from masu import fidelity as face
from masu.cli.info import command as info
from masu.converter.convert import plan_conversion
from masu.converter.sources.folder import open_folder
from masu.specs.errors import NotAPackage, OutputError, RequestError
from masu.specs.models import ModelSpec


def test_the_callers_own_text_is_measured() -> None:
    assert fidelity().text.name == TEXT.name
    assert fidelity().reference == REFERENCE.name


def test_a_text_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"caf\xe9 au lait")
    with pytest.raises(RequestError, match="latin is not UTF-8"):
        face.measure_package(PACKAGE, REFERENCE, text=tmp_path / "latin")
    with pytest.raises(RequestError, match="missing cannot be read"):
        face.measure_package(PACKAGE, REFERENCE, text=tmp_path / "missing")


def test_a_planned_conversion_is_a_reference() -> None:
    """The plan of the source against the package that it becomes: only rounding to bfloat16."""
    planned = plan_conversion(
        open_folder(GOLDEN / "llama/hf"), ModelSpec(repo="llama"), dtype="BF16"
    )
    found = face.measure_package(
        REFERENCE, face.planned_reference(planned), text=TEXT, dtype="float64", backend="numpy"
    )
    assert 0 <= found.mean_kl < 1e-3
    assert max(each.error for each in found.matrices) < 2**-8
    assert found.reference_bytes == pytest.approx(found.bytes, rel=0.1)


def test_info_shows_what_the_report_says(tmp_path: Path) -> None:
    folder = copy_package("llama-mlx-4bit-g64", tmp_path)
    face.write_report(folder, hostile_report())
    said = CliRunner().invoke(info, [str(folder), "--fidelity", "--json"])
    expected = hostile_report().model_dump(mode="json")["fidelity"]
    assert json.loads(said.stdout)["fidelity"] == expected
    shown = CliRunner().invoke(info, [str(folder), "--fidelity"]).stdout
    assert f"{fidelity().mean_kl:.4g} nats" in shown
    top = max(fidelity().layers, key=lambda each: each.own)
    layers = [line for line in shown.splitlines() if line.startswith("layer")]
    assert top.name in layers[0]
    assert len(layers) == len(fidelity().layers)


def test_info_says_that_nothing_was_measured() -> None:
    said = CliRunner().invoke(info, [str(PACKAGE), "--fidelity"])
    assert said.exit_code == 0
    assert "no fidelity" in said.stderr
    bare = CliRunner().invoke(info, [str(PACKAGE), "--fidelity", "--json"])
    assert json.loads(bare.stdout)["fidelity"] is None


def test_other_packages_stand_beside_on_the_same_text_only(tmp_path: Path) -> None:
    report = face.make_report("four", fidelity=fidelity(), seconds={})
    for name in ("same", "another"):
        (tmp_path / name).mkdir()
    with pytest.raises(NotAPackage, match="same has no report"):
        face.with_others(report, [tmp_path / "same"])
    face.write_report(tmp_path / "same", report.model_copy(update={"package": "eight"}))
    [other] = face.with_others(report, [tmp_path / "same"]).others
    assert (other.name, other.mean_kl, other.bytes) == (
        "eight",
        fidelity().mean_kl,
        fidelity().bytes,
    )
    text = fidelity().text.model_copy(update={"sha256": "0" * 64})
    changed = fidelity().model_copy(update={"text": text})
    face.write_report(tmp_path / "another", report.model_copy(update={"fidelity": changed}))
    with pytest.raises(RequestError, match="on another text"):
        face.with_others(report, [tmp_path / "another"])


def test_what_cannot_be_written_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written"):
        face.write_page(tmp_path / "missing/page.html", hostile_report())
