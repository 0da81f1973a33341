"""Every family on every backend against transformers, from each family's own tiny config.

Nothing is listed here: the cases are FAMILIES x BACKENDS and every family's variants, a new file in
either folder is a new case. Weights, norms and biases are random, every optional feature is on, and
hidden size equals intermediate size, so that a transposed matrix keeps its shape and must show in
the logits.
"""

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from checkpoints import random_checkpoint
from shared_backends import shared_backend

import masu.converter.convert
import masu.pipeline
from masu.converter.families import family_names, load_family
from masu.converter.table import Target, second_half_first
from masu.runtime.backends import backend_names, why_not
from masu.runtime.encoder import Encoder
from masu.runtime.network import load_network
from masu.specs.blocks.mixer import is_recurrent
from masu.specs.footprint import layers
from masu.specs.package import Package


class Case(NamedTuple):
    """A family's tiny config (variant 0), or that with one of its variants' overrides."""

    family: str
    variant: int

    def __str__(self) -> str:
        return f"{self.family}-{self.variant}" if self.variant else self.family

    @property
    def tiny(self) -> dict[str, Any]:
        family = load_family(self.family)
        return {**family.tiny, **({}, *family.variants)[self.variant]}


FAMILIES = [name for name in family_names() if load_family(name).tiny]
CASES = [
    Case(name, variant)
    for name in FAMILIES
    for variant in range(1 + len(load_family(name).variants))
]
COMPILED = "jax" if why_not("native") else "native"
RUNS = [
    (case, backend)
    for case in CASES
    for backend in backend_names()
    if backend == "numpy" or (backend in (COMPILED, "mlx") and not case.variant)
]
"""Variants differ in what is converted; one backend, the one that compiles nothing, suffices.

Of those that compile it is the one a user gets; plain JAX, which the native kernels fall back to,
runs every golden package.
"""

LENGTHS = (11, 60)
"""One prompt inside every window, one past it (and past Phi-3's original context of 48)."""

BOUND = 1e-4
"""In standard deviations of the reference's logits, float32 against float32: two to four layers
of float32 rounding stay near 1e-5, and the mildest planted fault below moves them by 1e-2."""

RECURRENT_BOUND = 3e-4
"""For layers that sum over the whole sequence, in another order here and there: where a sum nearly
cancels, the norm behind it makes its rounding visible (both sides are as far from float64)."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parity")


@cache
def reference(case: Case, folder: Path) -> tuple[Path, list[np.ndarray], list[np.ndarray]]:
    """A saved checkpoint, prompts, and the logits of transformers."""
    import torch

    target = folder / str(case) / "hf"
    model = random_checkpoint(case.tiny, target)
    random = np.random.default_rng(1)
    prompts = [random.integers(0, 300, length) for length in LENGTHS]
    with torch.no_grad():
        logits = [
            model(torch.tensor(ids)[None], use_cache=False).logits[0].numpy() for ids in prompts
        ]
    return target, prompts, logits


@cache
def package(case: Case, folder: Path) -> Package:
    source, _, _ = reference(case, folder)
    out = folder / str(case) / "package"
    masu.pipeline.convert(source, out, dtype="float32", verify=False)
    return Package.open(out)


def distance(converted: Package, case: Case, folder: Path, backend: str) -> float:
    """Largest difference of a logit, in standard deviations of the reference's."""
    _, prompts, expected = reference(case, folder)
    model = load_network(converted, dtype="float32", backend=shared_backend(backend))
    spread = float(np.std(np.concatenate(expected)))
    pairs = zip(prompts, expected, strict=True)
    return max(float(np.abs(model.logits(ids) - logits).max()) for ids, logits in pairs) / spread


def bound(converted: Package) -> float:
    recurrent = any(is_recurrent(each.mixer_config) for each in layers(converted.config))
    return RECURRENT_BOUND if recurrent else BOUND


@pytest.mark.parametrize(("case", "backend"), RUNS, ids=str)
def test_logits_are_those_of_transformers(case: Case, backend: str, folder: Path) -> None:
    converted = package(case, folder)
    assert distance(converted, case, folder, backend) <= bound(converted)


@pytest.mark.parametrize("family", FAMILIES)
def test_single_steps_go_on_where_the_prompt_ends(family: str, folder: Path) -> None:
    """Whatever counts positions or keeps a state goes on: windows, rotations, recurrent states."""
    case = Case(family, 0)
    converted = package(case, folder)
    model = load_network(converted, dtype="float32", backend=shared_backend("numpy"))
    if isinstance(model, Encoder):
        pytest.skip("a classifier reads everything at once")
    _, (_, ids), (_, expected) = reference(case, folder)
    rest = 10
    first, state = model.advance(model.start(len(ids)), ids[:-rest])
    found = [first]
    for step in range(len(ids) - rest, len(ids)):
        logits, state = model.advance(state, ids[step : step + 1])
        found.append(logits)
    difference = np.abs(np.concatenate(found) - expected).max()
    assert difference <= bound(converted) * np.std(expected)


def swapped_table(table: Any) -> dict[str, Any]:
    """The family's table with the two halves of the gated MLP exchanged, or with rows as they come.

    Where there is no such thing, keys and values are exchanged. Orders that also say how many rows
    there are, one for each alternative, stay.
    """
    ordered = any(isinstance(target, Target) and callable(target.rows) for target in table.values())
    plain = not ordered and not any("{up,gate}" in source for source in table)
    swapped = {}
    for source, target in table.items():
        source = source.replace("{up,gate}", "{gate,up}").replace("{w3,w1}", "{w1,w3}")
        source = source.replace("{q,k,v}", "{q,v,k}") if plain else source
        if isinstance(target, Target) and callable(target.rows):
            target = dataclasses.replace(target, rows=None)
        elif isinstance(target, Target) and target.packed and "up_projection" in target.name:
            target = dataclasses.replace(target, rows=second_half_first)
        swapped[source] = target
    return swapped


@pytest.mark.parametrize("family", FAMILIES)
def test_a_swapped_row_of_the_table_is_caught(
    family: str, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = load_family(family)
    wrong = dataclasses.replace(real, weights=lambda config: swapped_table(real.weights(config)))
    monkeypatch.setattr(masu.converter.convert, "load_family", lambda name: wrong)
    case = Case(family, 0)
    source, _, _ = reference(case, folder)
    masu.pipeline.convert(source, tmp_path / "package", dtype="float32", verify=False)
    assert distance(Package.open(tmp_path / "package"), case, folder, "numpy") > 100 * BOUND
