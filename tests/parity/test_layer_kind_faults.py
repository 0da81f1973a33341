"""Planted faults in what only some families have: each takes the logits far from transformers'.

The faults are in a converted package's config or tensors, in the weight table, or in a block.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fault_distance import LEAST, Models
from tensor_sources import Altered, Change, edited, layers_of

import masu.converter.convert
import masu.pipeline
from masu.converter.families import load_family
from masu.converter.table import Target
from masu.runtime.blocks import (
    full_width_norm_attention,
    norm,
    parallel_layer,
    position_scaled_attention,
    post_norm_layer,
)
from masu.runtime.blocks.layers import LAYERS
from masu.runtime.blocks.registry import MIXERS, MLPS
from masu.specs.blocks.parallel_layer import ParallelLayerConfig
from masu.specs.blocks.post_norm_layer import PostNormLayerConfig

IDS = np.random.default_rng(1).integers(0, 300, 60)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(lambda family: load_family(family).tiny, IDS, tmp_path_factory.mktemp("faults"))


def in_attention(**fields: object) -> Callable[[dict], None]:
    """Changes fields of every mixer, or of the attention that it wraps."""

    def edit(decoder: dict) -> None:
        for layer in layers_of(decoder):
            mixer = layer["mixer_config"]
            inner = mixer.get("attention_config", {})
            for name, value in fields.items():
                (mixer if name in mixer else inner)[name] = value

    return edit


def rope_everywhere(decoder: dict) -> None:
    rope = next(layer["rope_config"] for layer in layers_of(decoder) if layer["rope_config"])
    for layer in layers_of(decoder):
        layer["rope_config"] = rope


def another_activation(decoder: dict) -> None:
    for layer in layers_of(decoder):
        layer["mlp_config"]["activation"] = {"type": "GELU", "approximate": True}


@pytest.mark.parametrize(
    ("family", "edit"),
    [
        ("olmo2", in_attention(norm_span="each_head")),
        ("olmo3", in_attention(scale=None)),
        ("olmo3", rope_everywhere),
        ("exaone4", rope_everywhere),
        ("ministral3", in_attention(beta=0.0)),
        ("ministral3", in_attention(original_context_length=25)),
        ("ministral3", in_attention(scale=None)),
        ("stablelm", in_attention(norm_span="all_heads")),
        ("nanochat", another_activation),
    ],
)
def test_fault_in_the_config(family: str, edit: Callable[[dict], None], models: Models) -> None:
    source = models[family].package
    assert models[family].distance(Altered(source, edited(source.config, edit))) > LEAST


def first_head_last(values: np.ndarray) -> np.ndarray:
    return np.roll(values, len(values) // 4)


@pytest.mark.parametrize(
    ("family", "tensors", "change"),
    [
        ("stablelm", "mixer.query_norm.scales", first_head_last),
        ("stablelm", "norm.biases", np.zeros_like),
        ("starcoder2", "pre_mlp_norm.biases", np.zeros_like),
        ("starcoder2", "mlp.up_projection.biases", np.zeros_like),
        ("starcoder2", "mlp.down_projection.biases", np.zeros_like),
        ("seed_oss", "mixer.out_projection.biases", np.zeros_like),
        ("cohere2", "norm.scales", np.ones_like),
    ],
)
def test_fault_in_the_tensors(family: str, tensors: str, change: Change, models: Models) -> None:
    source = models[family].package
    names = [name for name in source.tensors() if name.endswith(f".{tensors}")]
    assert names
    faulty = Altered(source, source.config, dict.fromkeys(names, change))
    assert models[family].distance(faulty) > LEAST


@pytest.mark.parametrize("family", ["glm4", "cohere2", "nanochat"])
def test_rows_left_in_the_checkpoint_s_order(
    family: str, models: Models, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = load_family(family)

    def weights(config: Any) -> dict[str, Any]:
        return {
            key: dataclasses.replace(target, rows=None)
            if isinstance(target, Target) and isinstance(target.rows, tuple)
            else target
            for key, target in real.weights(config).items()
        }

    wrong = dataclasses.replace(real, weights=weights)
    monkeypatch.setattr(masu.converter.convert, "load_family", lambda name: wrong)
    source = models[family].converted(tmp_path / "package")
    assert models[family].distance(source) > LEAST


def sequential(backend: Any, config: Any, parameters: Any, x: Any, state: Any, context: Any) -> Any:
    """A parallel layer whose MLP reads what the mixer has added."""
    mixer, mlp = MIXERS[type(config.mixer_config)], MLPS[type(config.mlp_config)]
    normed = norm.apply(backend, config.norm_config, parameters.norm, x)
    mixed, state = mixer.apply(
        backend, config.mixer_config, parameters.mixer, normed, state, context
    )
    x = x + mixed
    normed = norm.apply(backend, config.norm_config, parameters.norm, x)
    return x + mlp.apply(backend, config.mlp_config, parameters.mlp, normed), state


def normed_before(
    backend: Any, config: Any, parameters: Any, x: Any, state: Any, context: Any
) -> Any:
    """A post-norm layer that norms what its parts read."""
    mixer, mlp = MIXERS[type(config.mixer_config)], MLPS[type(config.mlp_config)]
    normed = norm.apply(backend, config.post_mixer_norm_config, parameters.post_mixer_norm, x)
    mixed, state = mixer.apply(
        backend, config.mixer_config, parameters.mixer, normed, state, context
    )
    x = x + mixed
    normed = norm.apply(backend, config.post_mlp_norm_config, parameters.post_mlp_norm, x)
    return x + mlp.apply(backend, config.mlp_config, parameters.mlp, normed), state


@pytest.mark.parametrize(
    ("family", "kind", "real", "fault"),
    [
        ("cohere2", ParallelLayerConfig, parallel_layer, sequential),
        ("stablelm", ParallelLayerConfig, parallel_layer, sequential),
        ("olmo2", PostNormLayerConfig, post_norm_layer, normed_before),
        ("exaone4", PostNormLayerConfig, post_norm_layer, normed_before),
    ],
)
def test_a_layer_of_another_kind(
    family: str,
    kind: type,
    real: Any,
    fault: Callable[..., Any],
    models: Models,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(LAYERS, kind, SimpleNamespace(load=real.load, apply=fault))
    assert models[family].distance(models[family].package) > LEAST


@pytest.mark.parametrize("family", ["olmo2", "olmo3", "stablelm"])
def test_queries_and_keys_without_their_norms(
    family: str, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full_width_norm_attention, "_normed", lambda *given: given[-1])
    assert models[family].distance(models[family].package) > LEAST


def test_queries_that_grow_without_steps(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scale changes with whole multiples of the original context only."""

    def smooth(backend: Any, config: Any, tokens: int, context: Any, wide: np.dtype) -> np.ndarray:
        places = context.position + np.arange(tokens)
        return 1 + config.beta * np.log(1 + places / config.original_context_length).astype(wide)

    monkeypatch.setattr(position_scaled_attention, "query_factors", smooth)
    assert models["ministral3"].distance(models["ministral3"].package) > LEAST


def test_without_a_fault_nothing_is_far(models: Models) -> None:
    """The bound of all others is one that the packages themselves pass."""
    for family in ("olmo2", "olmo3", "exaone4", "cohere2", "stablelm", "ministral3", "nanochat"):
        assert models[family].distance(models[family].package) < LEAST / 100
