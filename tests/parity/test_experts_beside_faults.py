"""Planted faults in mixtures beside or below other projections, and in biases of few families.

Gemma 4's experts beside a dense MLP, Nemotron's in a latent space, LFM2's convolutions with
biases, Muse Glimmer's gate without. Each takes the logits far from transformers'.
"""

import dataclasses
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import random_checkpoint
from shared_backends import shared_backend
from tensor_sources import Altered, Change, edited, layers_of

import masu.converter.convert
import masu.pipeline
from masu.converter.families import load_family
from masu.converter.table import Target
from masu.runtime.loader import TensorSource
from masu.runtime.model import load_model
from masu.specs.package import Package

LEAST = 1e-2
"""In standard deviations of the logits: a hundred times what `test_parity.py` lets pass."""

MODELS: dict[str, tuple[str, Callable[[dict[str, Any]], bool]]] = {
    "beside": ("gemma4_text", lambda variant: variant.get("enable_moe_block", False)),
    "latent": ("nemotron_h", lambda variant: variant.get("moe_latent_size") == 64),
    "biased conv": ("lfm2", lambda variant: variant.get("conv_bias", False)),
    "biased gate": ("muse_glimmer", lambda variant: not variant),
}
"""A family, and which of its variants."""

IDS = np.random.default_rng(1).integers(0, 300, 40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("experts")


@cache
def reference(model: str, folder: Path) -> np.ndarray:
    """The logits of transformers for a random checkpoint, which is saved."""
    import torch

    name, is_wanted = MODELS[model]
    family = load_family(name)
    variant = next(each for each in ({}, *family.variants) if is_wanted(dict(each)))
    made = random_checkpoint({**family.tiny, **variant}, folder / model / "hf")
    with torch.no_grad():
        return made(torch.tensor(IDS)[None], use_cache=False).logits[0].numpy()


def converted(model: str, folder: Path, out: Path) -> Package:
    reference(model, folder)
    masu.pipeline.convert(folder / model / "hf", out, dtype="float32", verify=False)
    return Package.open(out)


@cache
def package(model: str, folder: Path) -> Package:
    return converted(model, folder, folder / model / "package")


def distance(source: TensorSource, model: str, folder: Path) -> float:
    """Largest difference of a logit from the reference, in standard deviations of all logits."""
    wanted = reference(model, folder)
    found = load_model(source, dtype="float32", backend=shared_backend("numpy")).logits(IDS)
    return float(np.abs(found - wanted).max() / wanted.std())


def first_last(values: np.ndarray) -> np.ndarray:
    return np.roll(values, 1, axis=0)


def last_missing(experts: np.ndarray) -> np.ndarray:
    return np.concatenate([experts[:-1], np.zeros_like(experts[-1:])])


def turned(matrix: np.ndarray) -> np.ndarray:
    """Rows for columns, of every expert if there are several; the matrices are square."""
    return np.ascontiguousarray(matrix.swapaxes(-1, -2))


@pytest.mark.parametrize(
    ("model", "tensors", "change"),
    [
        ("beside", "mlp.dense_scales", np.ones_like),
        ("beside", "mlp.mixture_scales", np.ones_like),
        ("beside", "mlp.router_scales", np.ones_like),
        ("beside", "mlp.post_dense_norm.scales", np.ones_like),
        ("beside", "mlp.post_mixture_norm.scales", np.ones_like),
        ("beside", "mlp.mixture.router.expert_scales", np.ones_like),
        ("beside", "mlp.mixture.router.weights.weights", first_last),
        ("beside", "mlp.mixture.experts.down_projection.weights.weights", last_missing),
        ("beside", "mlp.mixture.experts.down_projection.weights.weights", turned),
        ("latent", "mlp.mixture.in_projection.weights.weights", turned),
        ("latent", "mlp.mixture.out_projection.weights.weights", turned),
        ("latent", "mlp.mixture.mixture.router.weights.weights", first_last),
        ("latent", "mlp.mixture.mixture.experts.up_projection.weights.weights", last_missing),
        ("biased conv", "mixer.in_projection.biases", np.zeros_like),
        ("biased conv", "mixer.conv.biases", np.zeros_like),
        ("biased conv", "mixer.out_projection.biases", np.zeros_like),
        ("biased gate", "mixer.qkvg_projection.biases", np.zeros_like),
        ("biased gate", "mixer.out_projection.biases", np.zeros_like),
    ],
)
def test_fault_in_the_tensors(model: str, tensors: str, change: Change, folder: Path) -> None:
    source = package(model, folder)
    names = [name for name in source.tensors() if name.endswith(f".{tensors}")]
    assert names
    faulty = Altered(source, source.config, dict.fromkeys(names, change))
    assert distance(faulty, model, folder) > LEAST


def without_scales(decoder: dict) -> None:
    """The routing that engines know: the weights of the chosen experts add up to 1."""
    for layer in layers_of(decoder):
        layer["mlp_config"]["mixture_config"]["routing_function"]["type"] = "SoftmaxRouting"


def test_routing_without_scales(folder: Path) -> None:
    source = package("beside", folder)
    table = {
        name: spec for name, spec in source.tensors().items() if not name.endswith("expert_scales")
    }
    plain = Altered(source, edited(source.config, without_scales), table=table)
    assert distance(plain, "beside", folder) > LEAST


def test_a_gate_with_the_biases_of_the_queries(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = load_family("muse_glimmer")

    def weights(config: Any) -> dict[str, Any]:
        return {
            key: dataclasses.replace(target, view=None)
            if isinstance(target, Target) and isinstance(target.view, tuple)
            else target
            for key, target in real.weights(config).items()
        }

    wrong = dataclasses.replace(real, weights=weights)
    monkeypatch.setattr(masu.converter.convert, "load_family", lambda name: wrong)
    source = converted("biased gate", folder, tmp_path / "package")
    assert distance(source, "biased gate", folder) > LEAST


@pytest.mark.parametrize("model", MODELS)
def test_single_steps_go_on_where_the_prompt_ends(model: str, folder: Path) -> None:
    """States of convolutions with biases, mixtures of one row."""
    wanted = reference(model, folder)
    network = load_model(package(model, folder), dtype="float32", backend=shared_backend("numpy"))
    found, state = network.advance(network.start(len(IDS)), IDS[:-5])
    rows = [found]
    for step in range(len(IDS) - 5, len(IDS)):
        logits, state = network.advance(state, IDS[step : step + 1])
        rows.append(logits)
    assert np.abs(np.concatenate(rows) - wanted).max() < LEAST / 100 * wanted.std()


@pytest.mark.parametrize("model", MODELS)
def test_without_a_fault_nothing_is_far(model: str, folder: Path) -> None:
    assert distance(package(model, folder), model, folder) < LEAST / 100
