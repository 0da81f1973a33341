"""Verdicts on packages of codes: from quantised sources, and from calibrated recipes."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from golden import GOLDEN
from package_faults import DOWN, OUT, Fault, first_scale, one_code, rewritten, rows
from quantised_checkpoints import WRITTEN_BY, fixture, write_checkpoint

import masu
from masu.planning import plan
from masu.specs.errors import RequestError
from masu.specs.fingerprints import FINGERPRINTS
from masu.specs.formats import microfloat
from masu.specs.recipe import Recipe, Rule
from masu.verification.heads import NoReference
from masu.verification.judge import compare
from masu.verification.recorded import write_fingerprints
from masu.verification.transformers_quantised import decoding
from masu.verification.walk import BOUND, BlockErrors

AWQ, PLAIN = GOLDEN / "llama-awq" / "hf", GOLDEN / "llama-tied" / "hf"
INT4 = {"type": "IntSpec", "bits": 4, "group_size": 32, "is_symmetric": False}


def compared(source: Path) -> BlockErrors:
    planned = plan(source)
    return compare(planned.conversion, planned.checkpoint)[1]


QUANTISED_SOURCES = ["bonsai-mlx-1bit", "gpt_oss", "lfm2-mlx-4bit", "llama-awq", "llama-mlx-mixed"]


@pytest.mark.parametrize("case", QUANTISED_SOURCES)
def test_an_honest_plan_of_codes_is_what_transformers_computes(case: str) -> None:
    """transformers' own model; it decodes MXFP4 itself, and gets what else masu decodes."""
    found = compared(GOLDEN / case / "hf")
    assert found.diverging is None
    assert found.worst < BOUND / 3


def test_codes_of_a_family_that_mlx_changes_say_why_there_is_nothing_to_compare_with() -> None:
    with pytest.raises(NoReference, match="mlx stores the norms of this family otherwise"):
        compared(GOLDEN / "qwen3_5-mlx-4bit" / "hf")


def test_a_code_that_was_decoded_wrongly_by_masu_is_found_where_transformers_decodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """MXFP4: the other methods' decoders are compared with their own libraries' values."""
    wrong = (microfloat.E2M1[0], 0.75, *microfloat.E2M1[2:])
    monkeypatch.setattr(microfloat, "E2M1", wrong)
    found = compared(GOLDEN / "gpt_oss" / "hf")
    assert found.diverging is not None


@pytest.mark.parametrize("writer", WRITTEN_BY)
def test_codes_of_one_block_that_a_method_wrote(writer: str, tmp_path: Path) -> None:
    arrays, _ = fixture(writer)
    found = compared(write_checkpoint(tmp_path / "hf", WRITTEN_BY[writer], arrays))
    assert found.diverging is None
    assert found.worst < BOUND / 3


FAULTS = {
    "one code": rewritten(1, f"{DOWN}.weights", edit=one_code),
    "one scale's sign": rewritten(1, f"{OUT}.scales", edit=first_scale),
    "scales shifted by one group": rewritten(
        0, f"{DOWN}.scales", edit=lambda a: (np.roll(a, 1, axis=0),)
    ),
    "rows permuted": rewritten(0, f"{OUT}.weights", edit=rows(slice(0, 1), slice(1, 2))),
}


def assert_found(fault: Fault, verdict: masu.Verdict) -> None:
    assert not verdict.passed
    assert verdict.diverging is not None
    assert verdict.diverging.block == fault.block


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with the codes of its source."""
    out = tmp_path_factory.mktemp("kept") / "package"
    masu.convert(AWQ, out, verify=False)
    write_fingerprints(out)
    return out


@pytest.mark.parametrize("name", FAULTS)
def test_damage_to_codes_of_the_source_is_found(name: str, kept: Path, tmp_path: Path) -> None:
    """With the source byte by byte, and without it by the fingerprints."""
    folder = Path(shutil.copytree(kept, tmp_path / "package"))
    FAULTS[name].apply(folder)
    assert_found(FAULTS[name], masu.verify(folder))
    assert_found(FAULTS[name], masu.verify(folder, AWQ))


def test_untouched_codes_of_the_source_pass_and_it_is_told_who_decoded_them(kept: Path) -> None:
    assert masu.verify(kept).level == "unchanged"
    verdict = masu.verify(kept, AWQ)
    assert (verdict.level, verdict.passed) == ("verified", True)
    assert verdict.told == ("transformers was given the awq weights as masu decodes them",)
    assert decoding(plan(GOLDEN / "gpt_oss" / "hf").checkpoint) is None


RECIPE = Recipe(
    name="own",
    description="",
    rules=(
        Rule(match="*", format=INT4, method="gptq"),
        Rule(match="embedding", format=INT4),
    ),
)


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package whose codes depend on a text as well."""
    folder = tmp_path_factory.mktemp("calibrated")
    text = folder / "text.txt"
    text.write_text("The box holds what was measured, and when it is full nothing is left. " * 12)
    masu.convert(PLAIN, folder / "package", recipe=RECIPE, calibration=text, verify=False)
    write_fingerprints(folder / "package")
    return folder / "package"


def test_untouched_calibrated_codes_pass_and_it_is_told_by_what(calibrated: Path) -> None:
    assert masu.verify(calibrated).level == "unchanged"
    verdict = masu.verify(calibrated, PLAIN)
    assert (verdict.level, verdict.passed) == ("unchanged", True)
    assert len(verdict.told) == 1
    assert verdict.told[0].startswith(
        "not verified: 12 matrices have calibrated codes, which the source alone does not"
        " determine: these were compared with the fingerprints, all others with the source;"
        " they were calibrated on text.txt (SHA-256 "
    )


@pytest.mark.parametrize("name", FAULTS)
def test_damage_to_calibrated_codes_is_found(name: str, calibrated: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(calibrated, tmp_path / "package"))
    FAULTS[name].apply(folder)
    assert_found(FAULTS[name], masu.verify(folder))
    assert_found(FAULTS[name], masu.verify(folder, PLAIN))


def test_without_fingerprints_calibrated_codes_cannot_be_vouched_for(
    calibrated: Path, tmp_path: Path
) -> None:
    """What else is in the package is still compared with the source."""
    folder = Path(shutil.copytree(calibrated, tmp_path / "package"))
    (folder / FINGERPRINTS).unlink()
    with pytest.raises(RequestError, match="12 matrices have calibrated codes"):
        masu.verify(folder, PLAIN)
    norms = rewritten(1, "pre_mixer_norm.scales", "pre_mlp_norm.scales", edit=lambda a, b: (b, a))
    norms.apply(folder)
    assert_found(norms, masu.verify(folder, PLAIN))
