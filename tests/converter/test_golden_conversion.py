"""Conversions of golden checkpoints against the packages that lalamo 0.17.0 wrote for them.

Equal means: config.json and tokenizer.json byte for byte; of model.safetensors every name, shape,
dtype, spec and byte. What differs is named here, and masu's side of it is shown to be right.
"""

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from checkpoints import golden_spec, open_golden
from golden import CASES, ENGINE_CASES, GOLDEN
from golden_sources import PROPORTIONAL
from safetensors import safe_open
from safetensors.numpy import load_file

from masu.converter.convert import ConversionPlan, plan_conversion
from masu.converter.families import family_names
from masu.specs.blocks.attention import AttentionConfig
from masu.specs.container import Container
from masu.specs.container_writer import write_container
from masu.specs.engines import DEFAULT_ENGINE, find_engine
from masu.specs.model import LanguageModelConfig
from masu.specs.package_writer import PackageContents


def family_of(case: str) -> str:
    return json.loads((GOLDEN / case / "hf" / "config.json").read_text())["model_type"]


GOLDEN_CONVERSIONS = [
    case for case in ENGINE_CASES if CASES[case]["has_hf"] and family_of(case) in family_names()
]

QUANTISED = {
    "bonsai-mlx-1bit",
    "lfm2-mlx-4bit",
    "llama-awq",
    "llama-mlx-4bit-g64",
    "llama-mlx-8bit-g32",
    "llama-mlx-mixed",
    "llama-odd-vocab-mlx-4bit",
    "qwen3_5-mlx-4bit",
}
"""Checkpoints whose codes are kept."""

LALAMO_IGNORES = {
    "gemma4-text": "rope_config",
    "llamba": "generation_config.stop_token_ids",
    "qwen3-yarn": "rope_config",
    "qwen2-sliding": "mixer_config.sliding_window_size",
}
"""Config values in which lalamo departs from transformers; golden/index.json says what is right."""

LALAMO_ROUNDS_TWICE = {"granite"}
"""lalamo rounds Granite's multiplier and then the product; masu rounds the product once."""

LALAMO_SWAPS_IDS = {"llama", "llama-awq", "llama-mlx-4bit-g64", "llama-mlx-mixed"}
"""lalamo gives added tokens the next free ids, special ones first, whatever ids are declared."""


def test_every_dense_family_with_golden_data_is_covered() -> None:
    assert {family_of(case) for case in GOLDEN_CONVERSIONS} >= {"llama", "qwen3"}
    assert {case for case in GOLDEN_CONVERSIONS if "quantisation" in CASES[case]} == QUANTISED
    assert LALAMO_IGNORES.keys() | LALAMO_ROUNDS_TWICE | LALAMO_SWAPS_IDS <= set(GOLDEN_CONVERSIONS)


def plan(case: str, config: str = "config.json") -> ConversionPlan:
    return plan_conversion(open_golden(case, config), golden_spec(case), dtype="BF16")


def contents(planned: ConversionPlan) -> PackageContents:
    return PackageContents(
        config=planned.config,
        stream=planned.stream,
        tokenizer=planned.tokenizer,
        dialect=find_engine(DEFAULT_ENGINE).dialect,
    )


@pytest.mark.parametrize("dialect", ["config.json", "config.v4.json"])
@pytest.mark.parametrize("case", GOLDEN_CONVERSIONS)
def test_config_is_lalamos(case: str, dialect: str) -> None:
    actual = contents(plan(case, dialect)).config_json
    expected = (GOLDEN / case / "engine" / "config.json").read_bytes()
    if case not in LALAMO_IGNORES:
        assert actual == expected
        return
    differing = set(_differences(json.loads(actual), json.loads(expected)))
    assert differing
    assert all(LALAMO_IGNORES[case] in path for path in differing)


def test_qwen3_keeps_its_rope_scaling() -> None:
    issue = CASES["qwen3-yarn"]["known_lalamo_difference"]
    layers = plan("qwen3-yarn").config.network.transformer_config.layer_configs
    assert [layer.rope_config.model_dump() for layer in layers if layer.rope_config] == [
        issue["expected"]
    ] * len(layers)


def test_qwen2_puts_windows_on_the_upper_layers() -> None:
    issue = CASES["qwen2-sliding"]["known_lalamo_difference"]
    layers = plan("qwen2-sliding").config.network.transformer_config.layer_configs
    windows = [
        layer.mixer_config.sliding_window_size
        for layer in layers
        if isinstance(layer.mixer_config, AttentionConfig)
    ]
    assert windows == issue["expected"]


def test_gemma4_keeps_the_partners_of_its_proportional_rotation() -> None:
    """As golden/index.json words it: pairs over the full head_dim, of which 4 to 15 stand still."""
    layers = plan("gemma4-text").config.network.transformer_config.layer_configs
    assert layers[2].rope_config == layers[5].rope_config == PROPORTIONAL


def test_llamba_stops_where_its_checkpoint_says() -> None:
    """lalamo adds three ids of Llama 3, which this vocabulary does not even have."""
    config = plan("llamba").config
    assert isinstance(config, LanguageModelConfig)
    assert config.generation_config.stop_token_ids == (1, 3)
    assert config.decoder_config.vocab_size < 128001


@pytest.mark.parametrize("case", GOLDEN_CONVERSIONS)
def test_tokenizer_is_lalamos(case: str) -> None:
    actual = plan(case).tokenizer
    expected = (GOLDEN / case / "engine" / "tokenizer.json").read_bytes()
    if case not in LALAMO_SWAPS_IDS:
        assert actual == expected
        return
    declared = json.loads((GOLDEN / case / "hf" / "tokenizer_config.json").read_text())
    ids = {int(i): entry["content"] for i, entry in declared["added_tokens_decoder"].items()}
    assert {t["id"]: t["content"] for t in json.loads(actual)["added_tokens"]} == ids
    assert {t["id"]: t["content"] for t in json.loads(expected)["added_tokens"]} != ids


@pytest.mark.parametrize("case", GOLDEN_CONVERSIONS)
def test_tensors_are_lalamos(case: str, tmp_path: Path) -> None:
    planned = contents(plan(case))
    write_container(tmp_path / "model.safetensors", planned.stream, planned.metadata)
    golden = GOLDEN / case / "engine" / "model.safetensors"
    actual, expected = load_file(tmp_path / "model.safetensors"), load_file(golden)
    assert planned.metadata == _metadata(golden)
    assert {n: (t.dtype, t.shape) for n, t in actual.items()} == {
        n: (t.dtype, t.shape) for n, t in expected.items()
    }
    differing = {n for n in actual if actual[n].tobytes() != expected[n].tobytes()}
    if case in LALAMO_ROUNDS_TWICE:
        assert differing
        assert all("out_projection" in n or "down_projection" in n for n in differing)
    else:
        assert not differing
    assert list(Container.open(tmp_path / "model.safetensors").tensors) == list(
        Container.open(golden).tensors
    )


def test_granite_rounds_each_folded_weight_once() -> None:
    checkpoint = open_golden("granite")
    factor = checkpoint.config["residual_multiplier"]
    for tensor in plan("granite").stream:
        if not tensor.name.endswith("down_projection.weights"):
            continue
        source = tensor.name.removeprefix("decoder.transformer.").split(".")[1]
        name = f"model.layers.{source}.mlp.down_proj.weight"
        exact = checkpoint.tensors[name].read(0, tensor.shape[0]).astype(np.float64) * factor
        stored = np.concatenate([np.asarray(piece) for _, piece in tensor.pieces()])
        np.testing.assert_array_equal(stored, exact.astype(ml_dtypes.bfloat16))


def _metadata(path: Path) -> dict[str, str]:
    with safe_open(path, framework="numpy") as file:
        return file.metadata()


def _differences(actual: Any, expected: Any, path: str = "") -> list[str]:
    """Paths at which two JSON values differ."""
    if isinstance(actual, dict) and isinstance(expected, dict):
        keys = actual.keys() | expected.keys()
        return [
            found
            for key in keys
            for found in _differences(actual.get(key), expected.get(key), f"{path}.{key}")
        ]
    if isinstance(actual, list) and isinstance(expected, list) and len(actual) == len(expected):
        pairs = zip(actual, expected, strict=True)
        return [f for i, pair in enumerate(pairs) for f in _differences(*pair, f"{path}[{i}]")]
    return [] if actual == expected else [path]
