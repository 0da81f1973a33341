"""A model that every engine loads, and for each rule a change that breaks it and nothing else.

No weights: rules look at config, formats and the names of files.
"""

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from masu.specs.engine import Candidate
from masu.specs.formats import WEIGHT_FORMAT
from masu.specs.model import MODEL_CONFIG
from masu.specs.tensors import Matrix

Values = dict[str, Any]

WIDTH, HIDDEN, VOCAB = 128, 128, 256
UP = "decoder.transformer.layers.0.mlp.up_projection.weights"
QKV = "decoder.transformer.layers.0.mixer.qkvg_projection.weights"
INPUT, READOUT = "decoder.embedding.input_embedding", "decoder.embedding.output_embedding"
TIED = "decoder.embedding.embedding"

NORM: Values = {
    "epsilon": 1e-6, "scale_offset": None, "upcast_mode": "only_normalization",
    "subtract_mean": False, "has_scale": True, "has_biases": False,
}  # fmt: skip
ROPE: Values = {
    "type": "UnscaledRoPEConfig", "base": 1e4, "max_sequence_length": 64, "head_dim": 64,
}  # fmt: skip
LONG_ROPE: Values = {
    **ROPE, "type": "LongRoPEConfig", "short_factor": [1.0] * 32, "long_factor": [2.0] * 32,
    "original_context_length": 32, "scaling_factor": 2.0,
}  # fmt: skip
ATTENTION: Values = {
    "type": "AttentionConfig", "qkvg_projection_config": {}, "out_projection_config": {},
    "query_norm_config": None, "key_norm_config": None, "num_heads": 2, "num_groups": 1,
    "head_dim": 64, "is_causal": True, "scale": None, "sliding_window_size": None,
    "logit_soft_cap": None, "has_sinks": False, "has_qkvg_biases": False, "has_out_biases": False,
    "has_gate": False, "normalize_values": False, "is_kv_sharing": False,
}  # fmt: skip
DELTA: Values = {
    "type": "DeltaNetConfig", "in_proj_config": {}, "conv_config": {"has_biases": False},
    "out_proj_config": {}, "norm_config": NORM, "num_heads": 4, "num_groups": 4, "head_dim": 128,
    "value_head_dim": 128, "kernel_size": 4,
}  # fmt: skip
MAMBA: Values = {
    "type": "Mamba2Config", "in_projection_config": {}, "out_projection_config": {},
    "conv_config": {"has_biases": False}, "activation": {"type": "Identity"}, "kernel_size": 4,
    "num_heads": 2, "num_groups": 1, "head_dim": 64, "state_dim": 16, "has_in_biases": False,
    "has_out_biases": False,
}  # fmt: skip
SILU: Values = {"type": "SiLU", "alpha": 1.0}
MLP: Values = {
    "type": "DenseMLPConfig", "linear_config": {}, "activation": SILU, "has_up_biases": False,
    "has_down_biases": False, "gate_clipping": None, "up_clipping": None,
}  # fmt: skip
MIXTURE: Values = {
    "type": "MixtureOfExpertsConfig",
    "expert_config": {**MLP, "has_up_biases": True, "has_down_biases": True},
    "router_config": {}, "routing_function": {"type": "SoftmaxRouting"}, "num_routed_experts": 4,
    "num_active_routed_experts": 2, "router_has_biases": True, "num_shared_experts": 0,
    "expert_hidden_dim": 32, "gate_config": None,
}  # fmt: skip
LAYER: Values = {
    "pre_mixer_norm_config": NORM, "mixer_conv_config": None, "mixer_config": ATTENTION,
    "post_mixer_norm_config": None, "pre_mlp_norm_config": NORM, "mlp_conv_config": None,
    "mlp_config": MLP, "post_mlp_norm_config": None, "hidden_dim": None, "ple_config": None,
    "has_post_layer_scalar": False, "kv_source_layer_index": None, "rope_config": ROPE,
}  # fmt: skip
CONV: Values = {
    "conv_config": {"has_biases": False}, "kernel_projection_config": {}, "conv_kernel_size": 4,
    "conv_group_size": 4,
}  # fmt: skip
TABLES: Values = {
    "type": "UntiedEmbeddingConfig", "input_scale": None, "logit_soft_cap": None,
    "logit_scale": None,
}  # fmt: skip
CHAT: Values = {
    "type": "ChatCodecConfig", "prompt_template": "", "output_parser_regex": None,
    "system_role_name": "system", "user_role_name": "user", "assistant_role_name": "assistant",
    "eos_token": None, "bos_token": None, "end_of_thinking_tag": None,
    "default_system_prompt": None, "reasoning_config": None,
}  # fmt: skip
REASONING: Values = {
    "default_reasoning_effort": "low", "field_name": "thinking",
    "reasoning_effort_to_field_value": {"low": True},
}  # fmt: skip
TRANSFORMER: Values = {
    "layer_configs": [LAYER, LAYER], "output_norm_config": NORM, "model_dim": WIDTH,
    "hidden_dim": HIDDEN,
}  # fmt: skip
MODEL: Values = {
    "type": "LanguageModelConfig",
    "token_codec_config": {"type": "RawTextCodecConfig"},
    "decoder_config": {
        "embedding_config": TABLES, "transformer_config": TRANSFORMER, "vocab_size": VOCAB,
        "ple_model_config": None, "embedding_norm_config": None,
    },
    "generation_config": {
        "stop_token_ids": [0], "temperature": None, "top_k": None, "top_p": None, "min_p": None,
        "banned_tokens": None, "repetition_penalty": None, "presence_penalty": None,
        "frequency_penalty": None, "suffix_repetition_length": None,
    },
}  # fmt: skip
CLASSIFIER: Values = {
    "type": "ClassifierModelConfig",
    "token_codec_config": CHAT,
    "classifier_config": {
        "embedding_config": {**TABLES, "type": "TiedEmbeddingConfig"},
        "embedding_norm_config": NORM, "transformer_config": TRANSFORMER,
        "prediction_head_config": {
            "dense_config": {}, "activation": SILU, "normalization_config": NORM,
            "readout_config": {}, "use_dense_bias": False,
        },
        "vocab_size": VOCAB, "model_dim": WIDTH, "hidden_dim": HIDDEN, "num_labels": 2,
        "classifier_pooling": "mean", "output_labels": None,
    },
}  # fmt: skip
WEAVER: Values = {
    "model_dim": 256, "target_model_dim": WIDTH, "target_embedding_dim": WIDTH, "num_layers": 1,
    "num_heads": 2, "hidden_dim": 64, "max_depth": 4, "candidate_pool_size": 512,
    "linear_config": {}, "norm_config": {**NORM, "has_biases": True},
    "rope_config": {**ROPE, "head_dim": 128},
}  # fmt: skip
SPECULATOR: Values = {
    "type": "SpeculatorModelConfig",
    "speculator_config": {
        "type": "DFlashSpeculatorConfig",
        "draft_config": {
            "model_dim": WIDTH, "hidden_dim": HIDDEN, "block_size": 4, "mask_token_id": 0,
            "target_layer_ids": [0], "num_target_layers": 1, "vocab_size": VOCAB,
            "context_projection_config": {}, "context_norm_config": NORM, "rope_config": ROPE,
            "layer_configs": [LAYER], "output_norm_config": NORM,
        },
        "weaver_config": WEAVER,
    },
}  # fmt: skip

DRAFTS = ("config.json", "speculator/config.json", "speculator/shapes.json")

Edit = Callable[[Values], None]


@dataclass(frozen=True)
class Made:
    """A package without weights: a model, changed, with some matrices in other formats."""

    edits: tuple[Edit, ...] = ()
    model: Values = field(default_factory=lambda: MODEL)
    formats: Mapping[str, Values] = field(default_factory=dict)
    dtype: str = "BF16"
    files: tuple[str, ...] = ()

    def candidate(self) -> Candidate:
        values = json.loads(json.dumps(self.model))  # no object is shared between layers
        for edit in self.edits:
            edit(values)
        config = MODEL_CONFIG.validate_json(json.dumps(values))
        formats = {
            path: self.formats.get(path, {"type": "FullPrecisionSpec", "layout": entry.layout})
            for path, entry in config.tensors()
            if isinstance(entry, Matrix)
        }
        if strays := self.formats.keys() - formats.keys():
            raise KeyError(f"formats of matrices that the model does not have: {strays}")
        parsed = {
            path: WEIGHT_FORMAT.validate_json(json.dumps(spec)) for path, spec in formats.items()
        }
        return Candidate(config, parsed, self.dtype, self.files)


@dataclass(frozen=True)
class Case:
    """A package that breaks one rule, its twin that keeps within it, and words of the reason."""

    broken: Made
    twin: Made
    place: str
    reason: str


Cases: TypeAlias = dict[str, list[Case] | dict[str, list[Case]]]
"""By the id of the rule; by engine as well where releases differ in extent."""


def layer(values: Values, index: int = 0) -> Values:
    if "speculator_config" in values:
        return values["speculator_config"]["draft_config"]["layer_configs"][index]
    network = values.get("decoder_config") or values["classifier_config"]
    return network["transformer_config"]["layer_configs"][index]


def on_layer(**changes: Any) -> Edit:
    return lambda values: layer(values).update(deepcopy(changes))


def on_mixer(base: Values = ATTENTION, **changes: Any) -> Edit:
    return on_layer(mixer_config={**base, **changes})


def on_mlp(base: Values = MLP, **changes: Any) -> Edit:
    return on_layer(mlp_config={**base, **changes})


def on_expert(**changes: Any) -> Edit:
    return on_mlp(MIXTURE, expert_config={**MIXTURE["expert_config"], **changes})


def on_generation(**changes: Any) -> Edit:
    return lambda values: values["generation_config"].update(changes)


def on_codec(**changes: Any) -> Edit:
    return lambda values: values.update(token_codec_config={**CHAT, **changes})


def on_weaver(**changes: Any) -> Edit:
    return lambda values: values["speculator_config"]["weaver_config"].update(changes)


def tied(values: Values) -> None:
    values["decoder_config"]["embedding_config"]["type"] = "TiedEmbeddingConfig"


def made(*edits: Edit, **rest: Any) -> Made:
    return Made(edits, **rest)


def kept(path: str, spec: Values, *edits: Edit) -> Made:
    return Made(edits, formats={path: spec})


def int4(**changes: Any) -> Values:
    spec = {"type": "IntSpec", "bits": 4, "group_size": 32, "is_symmetric": True}
    return {**spec, "layout": "output_input", **changes}


def mlx(**changes: Any) -> Values:
    return {"type": "MLXSpec", "bits": 4, "group_size": 32, "layout": "output_input", **changes}


def hybrid(**changes: Any) -> Values:
    spec = {"type": "HybridSpec", "quantization_spec": int4(), "adapter_spec": None}
    sides = {"incoherence_block_size": 32, "incoherence_processing_mode": "input_output"}
    return spec | sides | changes


TABLE = "input_output"
LOW_RANK: Values = {"type": "LowRankSpec", "rank": 4}
D4S4: Values = {"type": "D4S4Spec", "layout": TABLE}
FULL: Values = {"type": "FullPrecisionSpec", "layout": "output_input"}
MXFP4: Values = {
    "type": "MicrofloatSpec", "bits": 4, "group_size": 32, "scale_mode": "mxfp4",
    "layout": "output_input",
}  # fmt: skip
HYBRID_TABLE = hybrid(quantization_spec=int4(layout=TABLE), incoherence_processing_mode="output")
BIASED_NORM, CENTRED_NORM = {**NORM, "has_biases": True}, {**NORM, "subtract_mean": True}
LAYER_PLACE = "decoder_config.transformer_config.layer_configs[0]"
