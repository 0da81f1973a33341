"""`masu.check`: the static check, an engine's rules and the strict load, in this order."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from golden import GOLDEN
from tensor_sources import edited, layers_of

import masu
from masu.soundness import load_findings
from masu.specs.errors import EngineError, NotAPackage
from masu.specs.package import Package
from masu.specs.tensors import ArraySpec


def problems(path: Path, engine: str | None = None) -> set[str]:
    return {finding.kind for finding in masu.check(path, engine=engine) if finding.is_problem}


def rules(path: Path, engine: str) -> dict[str | None, str]:
    """Severity by the id of each rule that a finding comes from."""
    findings = masu.check(path, engine=engine)
    return {found.rule: found.severity for found in findings if found.rule is not None}


def test_a_golden_package_is_sound_and_small() -> None:
    """Nothing but the head dims of a test model stands against it, and a chat is always told of."""
    assert problems(GOLDEN / "llama-tied/engine") == set()
    judged = rules(GOLDEN / "llama-tied/engine", "uzu-0.6")
    assert judged.pop("attention-head-dims") == "problem"
    assert judged == {"own-prompts": "warning"}


def test_what_an_engine_computes_otherwise_is_no_problem() -> None:
    """Gemma 2 caps its attention logits."""
    assert rules(GOLDEN / "gemma2/engine", "uzu-0.6")["no-attention-soft-cap"] == "warning"


class Drifted(Package):
    """Its table has one tensor more than any block of the runtime asks for."""

    def tensors(self) -> dict[str, ArraySpec]:
        return {**super().tensors(), "decoder.forgotten": ArraySpec("F32", (1,))}


def test_the_strict_load_is_a_check_of_its_own() -> None:
    package = Package.open(GOLDEN / "llama-tied/engine")
    assert not list(load_findings(package))
    (found,) = load_findings(Drifted(**vars(package)))
    assert found.kind == "tensors"
    assert "decoder.forgotten" in found.message


def test_a_broken_package_is_not_loaded(tmp_path: Path) -> None:
    package = tmp_path / "package"
    shutil.copytree(GOLDEN / "llama-tied/engine", package)
    config = (package / "config.json").read_text()
    (package / "config.json").write_text(config.replace('"head_dim"', '"head_dims"', 1))
    assert problems(package) == {"schema"}


def test_an_engine_without_the_block_refuses() -> None:
    """uzu 0.6 has no Mamba2."""
    assert problems(GOLDEN / "llamba/engine") == set()
    assert problems(GOLDEN / "llamba/engine", "uzu-0.6") == {"engine"}


def test_a_classifier_is_loaded_too() -> None:
    assert problems(GOLDEN / "modernbert/engine") == set()
    assert set(rules(GOLDEN / "modernbert/engine", "uzu-0.6")) == {"attention-head-dims"}
    package = Package.open(GOLDEN / "modernbert/engine")
    (found,) = load_findings(Drifted(**vars(package)))
    assert "decoder.forgotten" in found.message


def test_what_the_runtime_cannot_run_is_a_note() -> None:
    """It has no convolutions around mixers yet."""

    def convolve(decoder: dict[str, Any]) -> None:
        layers_of(decoder)[0]["mixer_conv_config"] = {
            "conv_config": {"has_biases": False},
            "kernel_projection_config": {},
            "conv_kernel_size": 4,
            "conv_group_size": 4,
        }

    package = Package.open(GOLDEN / "llama-tied/engine")
    changed = {**vars(package), "config": edited(package.config, convolve)}
    (found,) = load_findings(Package(**changed))
    assert found.kind == "note"
    assert "layer 0: TransformerLayerConvConfig (mixer_conv_config)" in found.message


def test_nothing_there_is_not_a_package(tmp_path: Path) -> None:
    with pytest.raises(NotAPackage):
        masu.check(tmp_path / "missing")


def test_an_unknown_engine_is_refused_first(tmp_path: Path) -> None:
    with pytest.raises(EngineError):
        masu.check(tmp_path / "missing", engine="uzu-9")


def test_a_package_in_another_dialect_is_refused_by_the_engine(tmp_path: Path) -> None:
    source = GOLDEN / "llama-tied/hf"
    masu.convert(source, tmp_path / "package", engine="uzu-0.5", verify=False)
    assert "other-release" not in rules(tmp_path / "package", "uzu-0.5")
    findings = masu.check(tmp_path / "package", engine="uzu-0.6")
    [found] = [f for f in findings if f.rule == "other-release"]
    assert found.is_problem
    assert found.message.startswith("the package is written for uzu-0.5, not for this release")
    assert "masu migrate --engine uzu-0.6" in found.message
