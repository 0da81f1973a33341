"""Kinds of layers and of attention that the engine lacks: their tensors, rules and state."""

import json
from typing import Any

import pytest
from golden import GOLDEN

from masu.specs.blocks.transformer import TransformerConfig
from masu.specs.errors import SchemaError
from masu.specs.footprint import state_bytes
from masu.specs.model import MODEL_CONFIG, LanguageModelConfig
from masu.specs.schema_errors import validate_json
from masu.specs.tensors import Matrix, Vector

BETA = {"beta": 0.1, "original_context_length": 8}


def golden() -> dict[str, Any]:
    return json.loads((GOLDEN / "llama-tied/engine/config.json").read_text())


def layers(config: dict[str, Any]) -> list[dict[str, Any]]:
    return config["decoder_config"]["transformer_config"]["layer_configs"]


def full_width(layer: dict[str, Any], norm_span: str = "all_heads") -> dict[str, Any]:
    return {
        "type": "FullWidthNormAttentionConfig",
        "attention_config": layer["mixer_config"],
        "norm_span": norm_span,
        "query_norm_config": layer["pre_mlp_norm_config"],
        "key_norm_config": layer["pre_mlp_norm_config"],
    }


def post_norm(layer: dict[str, Any]) -> dict[str, Any]:
    kept = {name: layer[name] for name in ("mixer_config", "mlp_config", "rope_config")}
    norm = layer["pre_mlp_norm_config"]
    norms = {"post_mixer_norm_config": norm, "post_mlp_norm_config": norm}
    return {"type": "PostNormLayerConfig", **kept, **norms}


def parallel(layer: dict[str, Any]) -> dict[str, Any]:
    kept = {name: layer[name] for name in ("mixer_config", "mlp_config", "rope_config")}
    return {"type": "ParallelLayerConfig", **kept, "norm_config": layer["pre_mlp_norm_config"]}


def parsed(config: dict[str, Any]) -> LanguageModelConfig:
    found = validate_json(MODEL_CONFIG, json.dumps(config).encode(), "config.json")
    assert isinstance(found, LanguageModelConfig)
    return found


def first_layer(config: dict[str, Any]) -> dict[str, Any]:
    prefix = "decoder.transformer.layers.0."
    return {
        name.removeprefix(prefix): entry
        for name, entry in parsed(config).tensors()
        if name.startswith(prefix)
    }


def test_kinds_may_be_mixed_and_survive_a_round_trip() -> None:
    config = golden()
    one, two, _ = layers(config)
    layers(config)[0], layers(config)[1] = post_norm(one), parallel(two)
    kinds = [type(layer).__name__ for layer in transformer(config).layer_configs]
    assert kinds == ["PostNormLayerConfig", "ParallelLayerConfig", "TransformerLayerConfig"]
    found = parsed(config)
    assert json.loads(found.model_dump_json()) == config
    assert MODEL_CONFIG.validate_python(found.model_dump()) == found


def transformer(config: dict[str, Any]) -> TransformerConfig:
    return parsed(config).decoder_config.transformer_config


def test_tensors_of_a_layer_of_each_kind() -> None:
    plain = first_layer(golden())
    shared = {name: entry for name, entry in plain.items() if "norm" not in name}
    scales = Vector((64,), "F32")
    for kind, norms in (
        (post_norm, ("post_mixer_norm", "post_mlp_norm")),
        (parallel, ("norm",)),
    ):
        config = golden()
        layers(config)[0] = kind(layers(config)[0])
        assert first_layer(config) == shared | {f"{name}.scales": scales for name in norms}


@pytest.mark.parametrize("norm_span", ["all_heads", "each_head"])
def test_full_width_norms_have_a_scale_for_every_channel(norm_span: str) -> None:
    config = golden()
    plain, layer = first_layer(config), layers(config)[0]
    layer["mixer_config"] = full_width(layer, norm_span)
    more = {
        "mixer.query_norm.scales": Vector((4 * 32,), "F32"),
        "mixer.key_norm.scales": Vector((2 * 32,), "F32"),
    }
    assert first_layer(config) == plain | more


def test_position_scaled_attention_has_the_tensors_of_plain_attention() -> None:
    config = golden()
    plain, layer = first_layer(config), layers(config)[0]
    kind = {"type": "PositionScaledAttentionConfig", "attention_config": layer["mixer_config"]}
    layer["mixer_config"] = {**kind, **BETA}
    assert first_layer(config) == plain


def test_an_ungated_mlp_has_half_the_rows() -> None:
    config = golden()
    layer = layers(config)[0]
    layer["mlp_config"] = {
        "type": "UngatedMLPConfig",
        "linear_config": {},
        "activation": {"type": "SquaredReLU"},
        "has_up_biases": True,
        "has_down_biases": False,
    }
    found = {name: entry for name, entry in first_layer(config).items() if "mlp." in name}
    assert found == {
        "mlp.up_projection.weights": Matrix((128, 64)),
        "mlp.up_projection.biases": Vector((128,)),
        "mlp.down_projection.weights": Matrix((64, 128)),
    }


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"is_kv_sharing": True}, "attention_config.is_kv_sharing must be false"),
        ({"key_norm_config": {}}, "attention_config must have no norms of single heads"),
    ],
)
def test_what_full_width_norms_do_not_go_with(fields: dict[str, Any], problem: str) -> None:
    config = golden()
    layer = layers(config)[0]
    if "key_norm_config" in fields:
        fields = {"key_norm_config": layer["pre_mlp_norm_config"]}
    layer["mixer_config"] = full_width({**layer, "mixer_config": layer["mixer_config"] | fields})
    with pytest.raises(SchemaError) as caught:
        parsed(config)
    assert caught.value.problems == (
        f"decoder_config.transformer_config.layer_configs[0].mixer_config: {problem}",
    )


def test_wrapped_attention_keeps_as_much_state() -> None:
    config = golden()
    expected = state_bytes(parsed(config), 100, "BF16")
    for layer in layers(config):
        layer["mixer_config"] = full_width(layer)
    layers(config)[0] = post_norm(layers(config)[0])
    assert state_bytes(parsed(config), 100, "BF16") == expected > 0
