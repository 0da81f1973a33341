"""Planted faults: each takes the logits of a golden package far away from the reference."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from golden import GOLDEN
from golden_sources import expected_source
from shared_backends import shared_backend
from tensor_sources import Altered, Change, each_layer, edited, layers_of

from masu.runtime.network import load_network
from masu.specs.package import Package

Edit = Callable[[dict], None]
LEAST = 1e-2
"""A hundred times what `test_golden_logits.py` lets pass."""


def in_mixers(**fields: object) -> Edit:
    def edit(decoder: dict) -> None:
        for layer in layers_of(decoder):
            layer["mixer_config"].update(fields)

    return edit


def without_offsets(decoder: dict) -> None:
    for layer in layers_of(decoder):
        for name, config in layer.items():
            if name.endswith("norm_config") and config is not None:
                config["scale_offset"] = None


def rope_everywhere(decoder: dict) -> None:
    rope = next(layer["rope_config"] for layer in layers_of(decoder) if layer["rope_config"])
    for layer in layers_of(decoder):
        layer["rope_config"] = rope


def no_embedding_norm(decoder: dict) -> None:
    decoder["embedding_norm_config"] = None


def nothing_in_embedding(name: str) -> Edit:
    def edit(decoder: dict) -> None:
        decoder["embedding_config"][name] = None

    return edit


def in_per_layer_embeddings(**fields: object) -> Edit:
    def edit(decoder: dict) -> None:
        decoder["ple_model_config"].update(fields)

    return edit


def cache_of_another_layer(decoder: dict) -> None:
    """Layers 3 and 4 of `gemma4-text` read the cache of layer 0 instead of layer 1."""
    for layer in layers_of(decoder)[3:5]:
        assert layer["kv_source_layer_index"] == 1
        layer["kv_source_layer_index"] = 0


def first_token_only(classifier: dict) -> None:
    classifier["classifier_pooling"] = "cls"


def full_rotation(decoder: dict) -> None:
    for layer in layers_of(decoder):
        rope, width = layer["rope_config"], layer["mixer_config"]["head_dim"]
        extra = [1.0] * ((width - rope["head_dim"]) // 2)
        rope["head_dim"] = width
        rope["short_factor"], rope["long_factor"] = (
            [*rope["short_factor"], *extra],
            [*rope["long_factor"], *extra],
        )


@pytest.mark.parametrize(
    ("case", "edit"),
    [
        ("mistral", in_mixers(sliding_window_size=None)),
        ("gemma2", in_mixers(sliding_window_size=None)),
        ("gemma2", in_mixers(logit_soft_cap=None)),
        ("gemma2", in_mixers(scale=None)),
        ("gemma2", nothing_in_embedding("logit_soft_cap")),
        ("gemma2", nothing_in_embedding("input_scale")),
        ("gemma2", without_offsets),
        ("muse_glimmer", nothing_in_embedding("logit_scale")),
        ("muse_glimmer", no_embedding_norm),
        ("muse_glimmer", rope_everywhere),
        ("smollm3", rope_everywhere),
        ("qwen3", in_mixers(normalize_values=True)),
        ("phi3", full_rotation),
        ("gemma4-text", cache_of_another_layer),
        ("gemma4-text", in_mixers(normalize_values=False)),
        ("gemma4-text", in_mixers(scale=None)),
        ("gemma4-text", in_per_layer_embeddings(ple_embed_scale=1.0)),
        ("gemma4-text", in_per_layer_embeddings(model_projection_scale=1e-5)),
        ("modernbert", first_token_only),
        ("modernbert", in_mixers(is_causal=True)),
        ("modernbert", in_mixers(sliding_window_size=None)),
        ("modernbert", in_mixers(sliding_window_size=18)),
    ],
)
def test_fault_in_the_config(case: str, edit: Edit) -> None:
    package = expected_source(case)
    assert farthest(case, Altered(package, edited(package.config, edit))) > LEAST


@pytest.mark.parametrize("case", ["qwen3", "gemma3-text", "lfm2", "qwen3_5"])
def test_queries_and_keys_without_their_norms(case: str) -> None:
    package = expected_source(case)
    config = edited(package.config, without_query_and_key_norms)
    names = (".query_norm.scales", ".key_norm.scales")
    table = {name: spec for name, spec in package.tensors().items() if not name.endswith(names)}
    assert len(table) < len(package.tensors())
    assert farthest(case, Altered(package, config, table=table)) > LEAST


def without_query_and_key_norms(decoder: dict) -> None:
    for layer in layers_of(decoder):
        if "query_norm_config" in layer["mixer_config"]:
            layer["mixer_config"].update(query_norm_config=None, key_norm_config=None)


def test_another_layer_s_slice_of_the_per_layer_embeddings() -> None:
    package = expected_source("gemma4-text")
    table = "decoder.per_layer_embedding.token_embedding.weights"
    changes = {table: lambda rows: np.roll(rows, 16, axis=1)}  # ple_dim columns for each layer
    assert farthest("gemma4-text", Altered(package, package.config, changes)) > LEAST


def test_two_per_cent_in_one_layer_scalar() -> None:
    package = expected_source("gemma4-text")
    changes = {
        "decoder.transformer.layers.1.post_layer_scalar": lambda s: (s * 1.02).astype(s.dtype)
    }
    assert farthest("gemma4-text", Altered(package, package.config, changes)) > LEAST


def halves_swapped(rows: np.ndarray) -> np.ndarray:
    return np.roll(rows, rows.shape[0] // 2, axis=0)


def keys_of_the_other_group(rows: np.ndarray) -> np.ndarray:
    """Heads 0 to 3 of `llama` read groups 1, 1, 0, 0 instead of 0, 0, 1, 1."""
    queries, keys, values = np.split(rows, [64, 96])
    return np.concatenate([queries, np.roll(keys, 16, axis=0), np.roll(values, 16, axis=0)])


def interleaved(rows: np.ndarray) -> np.ndarray:
    """Queries and keys of `llama` as for a rotation of neighbours instead of halves."""
    queries_and_keys, values = np.split(rows, [96])
    heads = queries_and_keys.reshape(6, 2, 8, -1).swapaxes(1, 2)
    return np.concatenate([heads.reshape(96, -1), values])


def keys_and_values_swapped(rows: np.ndarray) -> np.ndarray:
    queries, keys, values = np.split(rows, [64, 96])
    return np.concatenate([queries, values, keys])


def one_sign(values: np.ndarray) -> np.ndarray:
    largest = np.unravel_index(np.abs(values.astype(np.float32)).argmax(), values.shape)
    flipped = values.copy()
    flipped[largest] = -flipped[largest]
    return flipped


@pytest.mark.parametrize(
    ("matrix", "change"),
    [
        ("mlp.up_projection", halves_swapped),
        ("mixer.qkvg_projection", keys_of_the_other_group),
        ("mixer.qkvg_projection", interleaved),
        ("mixer.qkvg_projection", keys_and_values_swapped),
        ("mixer.out_projection", one_sign),
    ],
)
def test_fault_in_an_array(matrix: str, change: Change) -> None:
    package = Package.open(GOLDEN / "llama/engine")
    changes: Mapping[str, Change] = dict.fromkeys(
        each_layer([matrix], "weights.weights", layers=2), change
    )
    assert farthest("llama", Altered(package, package.config, changes)) > LEAST


def test_two_per_cent_in_one_layer() -> None:
    package = Package.open(GOLDEN / "llama/engine")
    name = "decoder.transformer.layers.1.mlp.down_projection.weights.weights"
    source = Altered(package, package.config, {name: lambda w: (w * 1.02).astype(w.dtype)})
    assert farthest("llama", source) > LEAST


def test_without_a_fault() -> None:
    package = Package.open(GOLDEN / "llama/engine")
    assert farthest("llama", Altered(package, package.config)) < LEAST / 100


def farthest(case: str, source: Altered) -> float:
    """The largest difference of the 80 rows, as a share of the logits' standard deviation."""
    golden = np.load(GOLDEN / case / "reference.npz")
    model = load_network(source, backend=shared_backend("numpy"))
    wanted = golden["logits_1"]
    return float(np.abs(model.logits(golden["input_ids_1"]) - wanted).max() / wanted.std())
