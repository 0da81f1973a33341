"""Golden checkpoints of families that lalamo has not, converted and run, give the recorded logits.

What lalamo can convert is compared byte for byte elsewhere; here only the numbers judge. Nothing
is listed: a new family file brings its golden checkpoints in.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from checkpoints import golden_spec
from golden import CASES, GOLDEN
from shared_backends import shared_backend

import masu.pipeline
from masu.converter.families import family_names
from masu.runtime.model import load_model
from masu.runtime.reference import reference_logits
from masu.specs.package import Package

RECURRENT = ("DeltaNetConfig", "Mamba2", "ShortConvConfig")


def is_checked(case: str) -> bool:
    """Only numbers in the model's own dtype: quantised sources have tests of their own."""
    facts = CASES[case]
    return (
        facts["has_hf"]
        and not facts["has_engine"]
        and "quantisation" not in facts
        and facts["model_type"] in family_names()
    )


GOLDEN_CHECKPOINTS = [case for case in sorted(CASES) if is_checked(case)]


def test_families_beyond_lalamo_are_there() -> None:
    assert {"olmo2", "olmo3", "glm4", "ministral3"} <= set(GOLDEN_CHECKPOINTS)


@pytest.mark.parametrize("case", GOLDEN_CHECKPOINTS)
def test_logits_of_a_converted_checkpoint(case: str, tmp_path: Path) -> None:
    """Float32 at both ends differs by 1e-5 of a logit's spread, thrice that with recurrent states
    (`golden_sources.TOLERANCE` has the least fault beside it)."""
    out = tmp_path / "package"
    masu.pipeline.convert(
        GOLDEN / case / "hf", out, spec=golden_spec(case), dtype="float32", verify=False
    )
    package = Package.open(out)
    config = json.dumps(package.config.model_dump())
    bound = 3e-4 if any(name in config for name in RECURRENT) else 1e-4
    model = load_model(package, dtype="float32", backend=shared_backend("jax"))
    golden = np.load(GOLDEN / case / "reference.npz")
    for prompt in (0, 1):
        ids, wanted = golden[f"input_ids_{prompt}"], golden[f"logits_{prompt}"]
        for found in (model.logits(ids), reference_logits(package, ids)):
            assert np.abs(found - wanted).max() / wanted.std() < bound
