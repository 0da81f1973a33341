"""The example of a family from outside: installed as a distribution, it converts and agrees."""

import shutil
import subprocess
import sys
from importlib import invalidate_caches
from pathlib import Path

import numpy as np
import pytest
from checkpoints import random_checkpoint
from shared_backends import shared_backend

import masu.pipeline
from masu.converter.families import family_names, load_family
from masu.runtime.model import load_model
from masu.specs.errors import UnknownFamily
from masu.specs.package import Package

EXAMPLE = Path(__file__).parents[1] / "examples" / "outside_family"
BOUND = 1e-4
"""As for the families inside: float32 against float32, in standard deviations of the logits."""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path that holds the example as pip installs it."""
    source = shutil.copytree(EXAMPLE, tmp_path / "example")  # building leaves files behind
    target = tmp_path / "site"
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--quiet", "--target"]
    pip = [sys.executable, "-m", "pip", "install", *options, str(target), str(source)]
    subprocess.run(pip, check=True)
    monkeypatch.syspath_prepend(target)
    invalidate_caches()
    load_family.cache_clear()
    return target


def test_without_it_the_family_is_unknown() -> None:
    load_family.cache_clear()
    with pytest.raises(UnknownFamily):
        load_family("olmo")


def test_it_converts_and_agrees_with_transformers(installed: Path, tmp_path: Path) -> None:
    import torch

    assert "olmo" in family_names()
    model = random_checkpoint(load_family("olmo").tiny, tmp_path / "hf")
    masu.pipeline.convert(tmp_path / "hf", tmp_path / "package", dtype="float32", verify=False)
    loaded = load_model(
        Package.open(tmp_path / "package"), dtype="float32", backend=shared_backend("numpy")
    )
    ids = np.random.default_rng(0).integers(0, 300, 20)
    with torch.no_grad():
        expected = model(torch.tensor(ids)[None], use_cache=False).logits[0].numpy()
    assert np.abs(loaded.logits(ids) - expected).max() <= BOUND * expected.std()
