"""Planted faults in mixtures beside or below other projections, and in biases of few families.

Gemma 4's experts beside a dense MLP, Nemotron's in a latent space, LFM2's convolutions with
biases, Muse Glimmer's gate without. Each takes the logits far from transformers'.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fault_distance import LEAST, Models
from shared_backends import shared_backend
from tensor_sources import Altered, Change, edited, layers_of

import masu.converter.convert
import masu.pipeline
from masu.converter.families import load_family
from masu.converter.table import Target
from masu.runtime.model import load_model

MODELS: dict[str, tuple[str, Callable[[dict[str, Any]], bool]]] = {
    "beside": ("gemma4_text", lambda variant: variant.get("enable_moe_block", False)),
    "latent": ("nemotron_h", lambda variant: variant.get("moe_latent_size") == 64),
    "biased conv": ("lfm2", lambda variant: variant.get("conv_bias", False)),
    "biased gate": ("muse_glimmer", lambda variant: not variant),
}
"""A family, and which of its variants."""

IDS = np.random.default_rng(1).integers(0, 300, 40)


def config_of(model: str) -> dict[str, Any]:
    name, is_wanted = MODELS[model]
    family = load_family(name)
    variant = next(each for each in ({}, *family.variants) if is_wanted(dict(each)))
    return {**family.tiny, **variant}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(config_of, IDS, tmp_path_factory.mktemp("faults"))


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
def test_fault_in_the_tensors(model: str, tensors: str, change: Change, models: Models) -> None:
    source = models[model].package
    names = [name for name in source.tensors() if name.endswith(f".{tensors}")]
    assert names
    faulty = Altered(source, source.config, dict.fromkeys(names, change))
    assert models[model].distance(faulty) > LEAST


def without_scales(decoder: dict) -> None:
    """The routing that engines know: the weights of the chosen experts add up to 1."""
    for layer in layers_of(decoder):
        layer["mlp_config"]["mixture_config"]["routing_function"]["type"] = "SoftmaxRouting"


def test_routing_without_scales(models: Models) -> None:
    source = models["beside"].package
    table = {
        name: spec for name, spec in source.tensors().items() if not name.endswith("expert_scales")
    }
    plain = Altered(source, edited(source.config, without_scales), table=table)
    assert models["beside"].distance(plain) > LEAST


def test_a_gate_with_the_biases_of_the_queries(
    models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    source = models["biased gate"].converted(tmp_path / "package")
    assert models["biased gate"].distance(source) > LEAST


@pytest.mark.parametrize("model", MODELS)
def test_single_steps_go_on_where_the_prompt_ends(model: str, models: Models) -> None:
    """States of convolutions with biases, mixtures of one row."""
    wanted = models[model].reference
    network = load_model(models[model].package, dtype="float32", backend=shared_backend("numpy"))
    found, state = network.advance(network.start(len(IDS)), IDS[:-5])
    rows = [found]
    for step in range(len(IDS) - 5, len(IDS)):
        logits, state = network.advance(state, IDS[step : step + 1])
        rows.append(logits)
    assert np.abs(np.concatenate(rows) - wanted).max() < LEAST / 100 * wanted.std()


@pytest.mark.parametrize("model", MODELS)
def test_without_a_fault_nothing_is_far(model: str, models: Models) -> None:
    assert models[model].distance(models[model].package) < LEAST / 100
