"""Engine releases: how each spells a package, and each limit with a package that breaks it."""

import json
from pathlib import Path
from typing import Any

import pytest
from golden import ENGINE_CASES, GOLDEN

from masu.specs import engines
from masu.specs.engine import Candidate, EngineProfile
from masu.specs.engines import DEFAULT_ENGINE, ENGINES, dialect_of, find_engine
from masu.specs.errors import EngineError, SchemaError
from masu.specs.model import MODEL_CONFIG
from masu.specs.package import Package

OLD, NEW = ENGINES["uzu-0.5"], ENGINES["uzu-0.6"]

LAYERS = "decoder_config.transformer_config.layer_configs"
UP = "decoder.transformer.layers.0.mlp.up_projection.weights"
INPUT_TABLE = "decoder.embedding.input_embedding"
READOUT = "decoder.embedding.output_embedding"


def test_one_file_is_one_engine() -> None:
    files = Path(engines.__path__[0]).glob("uzu_*.py")
    assert sorted(file.stem.replace("_", "-", 1).replace("_", ".") for file in files) == list(
        ENGINES
    )
    assert DEFAULT_ENGINE in ENGINES
    assert find_engine(DEFAULT_ENGINE).name == ENGINES[DEFAULT_ENGINE].dialect.name


def test_unknown_engine() -> None:
    with pytest.raises(EngineError, match=r'known are uzu-0\.5, uzu-0\.6; did you mean "uzu-0\.6"'):
        find_engine("uzu-06")


# Dialects


def golden_config(case: str) -> Any:
    return json.loads((GOLDEN / case / "engine/config.json").read_text())


def is_expressible(case: str) -> bool:
    text = json.dumps(golden_config(case))
    gate_has_biases = case == "qwen3_next"
    return '"reasoning_config": {' not in text and not gate_has_biases


EXPRESSIBLE = [case for case in ENGINE_CASES if is_expressible(case)]


@pytest.mark.parametrize("case", EXPRESSIBLE)
def test_uzu_0_5_config_round_trip(case: str) -> None:
    """Also by bytes: key order is part of the file."""
    config = golden_config(case)
    encoded = OLD.dialect.encode_config(config)
    assert dialect_of(config) is NEW.dialect
    assert dialect_of(encoded) is OLD.dialect
    decoded = MODEL_CONFIG.validate_json(json.dumps(OLD.dialect.decode_config(encoded)))
    assert json.dumps(decoded.model_dump()) == json.dumps(config)
    assert json.dumps(OLD.dialect.encode_config(decoded.model_dump())) == json.dumps(encoded)


def test_uzu_0_5_keys_in_its_order() -> None:
    """The keys of uzu 0.5.19's structs."""
    config = OLD.dialect.encode_config(golden_config("llama"))
    layer = config["decoder_config"]["transformer_config"]["layer_configs"][0]
    assert list(config["token_codec_config"])[-2:] == [
        "end_of_thinking_tag", "default_system_prompt",
    ]  # fmt: skip
    assert list(layer) == [
        "pre_mixer_norm_config", "mixer_config", "post_mixer_norm_config", "pre_mlp_norm_config",
        "mlp_config", "post_mlp_norm_config", "hidden_dim", "ple_config", "has_post_layer_scalar",
        "kv_source_layer_index", "rope_config",
    ]  # fmt: skip
    assert list(layer["mixer_config"]) == [
        "type", "qkv_projection_config", "out_projection_config", "query_norm_config",
        "key_norm_config", "num_heads", "num_groups", "head_dim", "is_causal", "scale",
        "sliding_window_size", "logit_soft_cap", "has_sinks", "has_qkv_biases", "has_out_biases",
        "gate_projection_config", "normalize_values", "is_kv_sharing",
    ]  # fmt: skip
    assert layer["mixer_config"]["gate_projection_config"] is None


def test_tensor_names_of_uzu_0_5() -> None:
    canonical = "decoder.transformer.layers.0.mixer.qkvg_projection.weights.scales"
    stored = "decoder.transformer.layers.0.mixer.qkv_projection.weights.scales"
    assert OLD.dialect.stored_name(canonical) == stored
    assert OLD.dialect.canonical_name(stored) == canonical
    # The weaver's own blocks have the same name in both releases.
    weaver = "speculator.weaver.blocks.0.qkv_projection.weights.weights"
    assert OLD.dialect.stored_name(weaver) == OLD.dialect.canonical_name(weaver) == weaver


@pytest.mark.parametrize(
    ("case", "field"),
    [
        ("qwen3", "token_codec_config.reasoning_config"),
    ],
)
def test_what_uzu_0_5_has_no_words_for(case: str, field: str) -> None:
    with pytest.raises(EngineError) as caught:
        OLD.dialect.encode_config(golden_config(case))
    assert any(line.startswith(f"{field}: ") for line in caught.value.problems)


@pytest.mark.parametrize("key", ["mixer_conv_config", "mlp_conv_config"])
def test_uzu_0_5_has_no_layer_convolutions(key: str) -> None:
    config = golden_config("llama")
    config["decoder_config"]["transformer_config"]["layer_configs"][1][key] = {}
    with pytest.raises(EngineError) as caught:
        OLD.dialect.encode_config(config)
    assert caught.value.problems == (f"{LAYERS}[1].{key}: uzu 0.5 has no such field",)


def test_keys_of_both_releases_in_one_config() -> None:
    config = OLD.dialect.encode_config(golden_config("llama"))
    config["token_codec_config"]["reasoning_config"] = None
    with pytest.raises(SchemaError) as caught:
        dialect_of(config).decode_config(config)
    assert caught.value.problems[0].startswith("token_codec_config.reasoning_config: ")


@pytest.mark.parametrize("config", [[], None, 3, {}, {"type": "LanguageModelConfig"}])
def test_no_dialect_claims_what_it_does_not_know(config: Any) -> None:
    assert dialect_of(config) is NEW.dialect


# Golden packages

TINY = {"attention-head-dims", "delta-head-dims", "delta-widths", "group-sizes", "penalty-window"}
"""Rules that small models break by being small, or for their generation defaults."""

LOADS = {
    "uzu-0.5": set(EXPRESSIBLE) - {"qwen3_5_moe"},
    "uzu-0.6": set(ENGINE_CASES) - {"llamba", "qwen3_5_moe", "qwen3_next"},
}


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())
def test_which_golden_packages_load_but_for_their_size(engine: EngineProfile) -> None:
    """Full-size models of these families load where only such rules object."""
    odd = {"bonsai-mlx-1bit", "gpt_oss", "llama-other-specs"}
    loads = set()
    for case in ENGINE_CASES:
        package = Package.open(GOLDEN / case / "engine")
        judged = engine.judge(Candidate(package.config, package.formats, package.dtype))
        refused = {found.rule.id for found in judged if found.rule.effect == "refused"}
        if refused <= TINY:
            loads.add(case)
    assert loads == LOADS[engine.name] - odd
