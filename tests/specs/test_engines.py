"""Engine releases: how each spells a package, and each limit with a package that breaks it."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from golden import ENGINE_CASES, GOLDEN

from masu.specs import engines
from masu.specs.engine import EngineProfile
from masu.specs.engines import DEFAULT_ENGINE, ENGINES, dialect_of, find_engine
from masu.specs.errors import EngineError, SchemaError
from masu.specs.formats import WEIGHT_FORMAT, WeightFormat
from masu.specs.model import MODEL_CONFIG, ModelConfig
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
    return '"has_gate": true' not in text and '"reasoning_config": {' not in text


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
        ("qwen3_next", f"{LAYERS}[1].mixer_config.has_gate"),
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


# Refusals

LOADS = {
    "uzu-0.5": set(EXPRESSIBLE) - {"bonsai-mlx-1bit", "gpt_oss", "llama-other-specs"},
    "uzu-0.6": set(ENGINE_CASES)
    - {"bonsai-mlx-1bit", "gpt_oss", "llama-other-specs", "llamba", "qwen3_5_moe", "qwen3_next"},
}


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())
def test_which_golden_packages_load(engine: EngineProfile) -> None:
    packages = {case: Package.open(GOLDEN / case / "engine") for case in ENGINE_CASES}
    loads = {
        case for case, p in packages.items() if not engine.refusals(p.config, p.formats, p.dtype)
    }
    assert loads == LOADS[engine.name]


def facts(
    case: str = "llama",
    *,
    edit: Callable[[Any], Any] = lambda config: None,
    formats: Mapping[str, dict[str, Any]] | None = None,
) -> tuple[ModelConfig, dict[str, WeightFormat], str]:
    """What `refusals` asks about: a golden package, edited, some matrices in other formats."""
    package = Package.open(GOLDEN / case / "engine")
    values = package.config.model_dump(mode="json")
    edit(values)
    changed = {
        name: WEIGHT_FORMAT.validate_json(json.dumps(spec))
        for name, spec in (formats or {}).items()
    }
    config = MODEL_CONFIG.validate_json(json.dumps(values))
    return config, {**package.formats, **changed}, package.dtype


def int_spec(**changes: Any) -> dict[str, Any]:
    spec = {"type": "IntSpec", "bits": 4, "group_size": 32, "is_symmetric": True}
    return {**spec, "layout": "output_input", **changes}


def mlx(**changes: Any) -> dict[str, Any]:
    spec = {"type": "MLXSpec", "bits": 4, "group_size": 32, "layout": "output_input"}
    return spec | changes


def hybrid(**changes: Any) -> dict[str, Any]:
    spec = {"type": "HybridSpec", "quantization_spec": int_spec(), "adapter_spec": None}
    sides = {"incoherence_block_size": 32, "incoherence_processing_mode": "input_output"}
    return spec | sides | changes


TABLE = "input_output"
LOW_RANK = {"type": "LowRankSpec", "rank": 4}
D4S4 = {"type": "D4S4Spec", "layout": TABLE}
FULL = {"type": "FullPrecisionSpec", "layout": "output_input"}
MXFP4 = {"type": "MicrofloatSpec", "bits": 4, "group_size": 32, "scale_mode": "mxfp4"}
LLOYD_MAX = {"type": "LloydMaxSpec", "bits": 4, "group_size": 32, "bias_bits": None}

FORMAT_LIMITS = [
    # engine, matrix, format, reason (None: it loads)
    (NEW, UP, int_spec(), None),
    (NEW, UP, int_spec(group_size=64), None),
    (NEW, UP, int_spec(group_size=128), "group size 128; the engine has 32 and 64"),
    (NEW, UP, mlx(group_size=16), "group size 16; the engine has 32 and 64"),
    (NEW, UP, mlx(bits=1), "1 bits per code; the engine has 4 and 8"),
    (NEW, UP, MXFP4 | {"layout": "output_input"}, "the engine has no MicrofloatSpec"),
    (NEW, UP, LLOYD_MAX | {"layout": "output_input"}, "the engine has no LloydMaxSpec"),
    (NEW, UP, LOW_RANK, "the engine has no LowRankSpec"),
    (NEW, UP, hybrid(), None),
    (NEW, UP, hybrid(incoherence_block_size=64), "Hadamard block 64; the engine has 32"),
    (NEW, UP, hybrid(incoherence_block_size=None), "Hadamard block null; the engine has 32"),
    (NEW, UP, hybrid(quantization_spec=mlx(bits=1)), "1 bits per code"),
    (NEW, UP, hybrid(quantization_spec=FULL), "a hybrid around FullPrecisionSpec"),
    (NEW, UP, hybrid(adapter_spec=FULL), "a hybrid with an adapter; the engine has none"),
    (NEW, UP, hybrid(incoherence_processing_mode="input"), "expects input_output here"),
    (NEW, READOUT, hybrid(incoherence_processing_mode="input"), None),
    (NEW, READOUT, hybrid(), "expects input here"),
    (NEW, INPUT_TABLE, D4S4, None),
    (OLD, UP, int_spec(group_size=128), None),
    (OLD, UP, int_spec(group_size=256), "group size 256; the engine has 16 and 32 and 64 and 128"),
    (OLD, UP, LOW_RANK, "LowRank serves as the adapter of a hybrid only"),
    (OLD, UP, hybrid(adapter_spec=LOW_RANK), None),
    (OLD, UP, hybrid(adapter_spec=LOW_RANK, incoherence_block_size=None), None),
    (OLD, UP, MXFP4 | {"layout": "output_input"}, "the engine has no MicrofloatSpec"),
    (OLD, INPUT_TABLE, D4S4, "the engine has no D4S4Spec"),
]


@pytest.mark.parametrize(("engine", "path", "spec", "reason"), FORMAT_LIMITS)
def test_limits_of_formats(
    engine: EngineProfile, path: str, spec: dict[str, Any], reason: str | None
) -> None:
    refusals = engine.refusals(*facts(formats={path: spec}))
    if reason is None:
        assert refusals == []
    else:
        assert len(refusals) == 1
        assert refusals[0].startswith(path)
        assert reason in refusals[0]


@pytest.mark.parametrize("mode", ["input", "output", "input_output"])
def test_tables_are_rotated_on_the_output_side(mode: str) -> None:
    core = int_spec(layout=TABLE)
    spec = hybrid(quantization_spec=core, incoherence_processing_mode=mode)
    refusals = NEW.refusals(*facts(formats={INPUT_TABLE: spec}))
    assert bool(refusals) == (mode != "output")


def test_a_tied_table_cannot_be_d4s4() -> None:
    tied = "decoder.embedding.embedding"
    [refusal] = NEW.refusals(*facts("llama-tied", formats={tied: D4S4}))
    assert refusal == f"{tied}: D4S4 serves untied input tables and per-layer embeddings only"


@pytest.mark.parametrize("engine", [OLD, NEW], ids=lambda engine: engine.name)
def test_parameters_are_bfloat16(engine: EngineProfile) -> None:
    config, formats, _ = facts()
    [refusal] = engine.refusals(config, formats, "F32")
    assert refusal == "model.safetensors: the engine loads BF16 parameters, these are F32"


def test_types_that_uzu_0_6_has_dropped() -> None:
    [refusal] = NEW.refusals(*facts("llamba"))
    place = f"{LAYERS}[0].mixer_config"
    assert refusal == f"{place} (and 1 more like it): the engine has no Mamba2Config"


def test_mixtures_of_experts_are_parsed_but_not_loaded() -> None:
    [refusal] = NEW.refusals(*facts("qwen3_next"))
    assert refusal.startswith(f"{LAYERS}[0].mlp_config")
    assert refusal.endswith(": mixture of experts is not supported")


@pytest.mark.parametrize("engine", [OLD, NEW], ids=lambda engine: engine.name)
def test_classifiers_pool_by_the_mean(engine: EngineProfile) -> None:
    def edit(config: Any) -> None:
        config["classifier_config"]["classifier_pooling"] = "cls"

    assert engine.refusals(*facts("modernbert")) == []
    [refusal] = engine.refusals(*facts("modernbert", edit=edit))
    place = "classifier_config.classifier_pooling"
    assert refusal == f"{place}: pooling by cls; the engine has mean"


@pytest.mark.parametrize("name", ["banned_tokens", "presence_penalty", "frequency_penalty"])
def test_samplers_that_uzu_0_5_does_not_have(name: str) -> None:
    value = [1] if name == "banned_tokens" else 0.5

    def edit(config: Any) -> None:
        config["generation_config"][name] = value

    [refusal] = OLD.refusals(*facts(edit=edit))
    assert refusal == f"generation_config.{name}: the engine has no such sampler"


@pytest.mark.parametrize("case", ["qwen3", "qwen3_5"])
def test_what_a_dialect_cannot_write_is_a_refusal(case: str) -> None:
    """Reasoning options, and gated attention."""
    [refusal] = OLD.refusals(*facts(case))
    assert "uzu 0.5" in refusal
