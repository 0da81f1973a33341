"""Every family on every backend against transformers, from each family's own tiny config.

Nothing is listed here: the cases are FAMILIES x BACKENDS, a new file in either folder is a new
case. Weights, norms and biases are random, every optional feature is on, and hidden size equals
intermediate size, so that a transposed matrix keeps its shape and must show in the logits.
"""

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import random_checkpoint
from shared_backends import shared_backend

import masu.converter.convert
import masu.pipeline
from masu.converter.families import family_names, load_family
from masu.converter.table import Target
from masu.runtime.backends import backend_names
from masu.runtime.model import load_model
from masu.specs.package import Package

FAMILIES = [name for name in family_names() if load_family(name).tiny]
LENGTHS = (11, 60)
"""One prompt inside every window, one past it (and past Phi-3's original context of 48)."""

BOUND = 1e-4
"""In standard deviations of the reference's logits, float32 against float32: two to four layers
of float32 rounding stay near 1e-5, and the mildest planted fault below moves them by 1e-2."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parity")


@cache
def reference(family: str, folder: Path) -> tuple[Path, list[np.ndarray], list[np.ndarray]]:
    """A saved checkpoint, prompts, and the logits of transformers."""
    import torch

    target = folder / family / "hf"
    model = random_checkpoint(load_family(family).tiny, target)
    random = np.random.default_rng(1)
    prompts = [random.integers(0, 300, length) for length in LENGTHS]
    with torch.no_grad():
        logits = [
            model(torch.tensor(ids)[None], use_cache=False).logits[0].numpy() for ids in prompts
        ]
    return target, prompts, logits


@cache
def package(family: str, folder: Path) -> Package:
    source, _, _ = reference(family, folder)
    out = folder / family / "package"
    masu.pipeline.convert(source, out, dtype="float32", verify=False)
    return Package.open(out)


def distance(converted: Package, family: str, folder: Path, backend: str) -> float:
    """Largest difference of a logit, in standard deviations of the reference's."""
    _, prompts, expected = reference(family, folder)
    model = load_model(converted, dtype="float32", backend=shared_backend(backend))
    spread = float(np.std(np.concatenate(expected)))
    pairs = zip(prompts, expected, strict=True)
    return max(float(np.abs(model.logits(ids) - logits).max()) for ids, logits in pairs) / spread


@pytest.mark.parametrize("backend", backend_names())
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_transformers(family: str, backend: str, folder: Path) -> None:
    assert distance(package(family, folder), family, folder, backend) <= BOUND


def swapped_table(table: Any) -> dict[str, Any]:
    """The family's table with the two halves of the gated MLP exchanged."""
    swapped = {}
    for source, target in table.items():
        if "{up,gate}" in source:
            source = source.replace("{up,gate}", "{gate,up}")
        if isinstance(target, Target) and target.rows is not None:
            target = Target(target.name)
        swapped[source] = target
    return swapped


@pytest.mark.parametrize("family", FAMILIES)
def test_a_swapped_row_of_the_table_is_caught(
    family: str, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = load_family(family)
    wrong = dataclasses.replace(real, weights=lambda config: swapped_table(real.weights(config)))
    monkeypatch.setattr(masu.converter.convert, "load_family", lambda name: wrong)
    source, _, _ = reference(family, folder)
    masu.pipeline.convert(source, tmp_path / "package", dtype="float32", verify=False)
    assert distance(Package.open(tmp_path / "package"), family, folder, "numpy") > 100 * BOUND
