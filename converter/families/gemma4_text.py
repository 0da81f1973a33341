"""Gemma 4, text only: per-layer embeddings, shared caches, two sizes of heads, normed values.

Rotation on full layers is "proportional" (see `converter/rope.py`). The mixture of experts that
transformers runs beside the MLP of the 26B model is a block of its own, which the engine lacks.
"""

import math
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, field_validator

from masu.converter.assemble import (
    GELU_TANH,
    attention,
    dense_decoder,
    dense_mlp,
    layer,
    rms_norm,
)
from masu.converter.config import DenseConfig, Epsilon, Size
from masu.converter.families import llama
from masu.converter.families.gemma import GeluTanh
from masu.converter.family import Family
from masu.converter.mixture import mixture
from masu.converter.rope import read_rope
from masu.converter.sliding import FULL, SLIDING, windows
from masu.converter.table import (
    READOUT,
    TOKEN_TABLE,
    Table,
    Target,
    Unused,
    second_half_first,
    times,
)
from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.dense_and_mixture import DenseAndMixtureConfig
from masu.specs.blocks.layer import TransformerLayerConfig
from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.blocks.ple import PLELayerConfig, PLEModelConfig
from masu.specs.blocks.rope import RoPEConfig
from masu.specs.blocks.routing import ScaledSoftmaxRouting
from masu.specs.errors import ConfigError

VALUE_EPSILON = 1e-6
"""The engine's, in the norm of values; its config has no word for another."""

DEFAULT_ROPES: dict[str, dict[str, Any]] = {
    FULL: {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25},
    SLIDING: {"rope_type": "default", "rope_theta": 1e4},
}


class Sizes(BaseModel):
    """What one layer has of its own, in the dialect of transformers 5."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    head_dim: Size | None = None
    num_key_value_heads: int | None = None


class Config(DenseConfig):
    """Sizes of full layers stand in `per_layer_config`, or in the older `*global*` keys."""

    vocab_size: int = 262144
    hidden_size: int = 2304
    intermediate_size: int = 9216
    num_hidden_layers: int = 30
    num_attention_heads: int = 8
    num_key_value_heads: int | None = 4
    head_dim: Size = 256
    global_head_dim: Size = 512
    num_global_key_value_heads: int | None = None
    per_layer_config: dict[str, Sizes] | None = None
    hidden_activation: GeluTanh = "gelu_pytorch_tanh"
    max_position_embeddings: int = 131072
    rms_norm_eps: Epsilon = VALUE_EPSILON
    tie_word_embeddings: bool = True
    attention_bias: bool = False
    attention_k_eq_v: bool = False
    sliding_window: int | None = 512
    layer_types: tuple[str, ...] | None = None
    final_logit_softcapping: float | None = None
    use_bidirectional_attention: Literal["vision"] | None = None
    """`vision` changes the attention between image tokens only."""
    vocab_size_per_layer_input: int = 262144
    hidden_size_per_layer_input: int = 256
    num_kv_shared_layers: int = 0
    use_double_wide_mlp: bool = False
    enable_moe_block: bool = False
    num_experts: Size | None = None
    top_k_experts: Size | None = None
    moe_intermediate_size: Size | None = None

    @field_validator("rms_norm_eps")
    @classmethod
    def _is_that_of_values(cls, epsilon: float) -> float:
        if epsilon != VALUE_EPSILON:
            raise ValueError(f"expected {VALUE_EPSILON}, the engine's for values")
        return epsilon

    @property
    def num_unshared(self) -> int:
        """Layers from here on read the cache of an earlier one."""
        return self.num_hidden_layers - self.num_kv_shared_layers

    def sizes(self, index: int, is_full: bool) -> Sizes:
        """What the layer has of its own."""
        if self.per_layer_config is not None:
            return self.per_layer_config.get(str(index), Sizes())
        if not is_full:
            return Sizes()
        groups = self.num_global_key_value_heads if self.attention_k_eq_v else None
        return Sizes(head_dim=self.global_head_dim, num_key_value_heads=groups)


def spans(config: Config) -> list[int | None]:
    """The window of each layer; by default every sixth layer is full, and the last one anyway."""
    last = config.num_hidden_layers - 1
    slides = [index % 6 != 5 and index != last for index in range(last + 1)]
    found = windows(config.layer_types, slides, config.sliding_window)
    if found[-1] is not None:
        raise ConfigError(f"config.json: layer_types: the last layer must be {FULL}")
    return found


def build(config: Config) -> DecoderConfig:
    norm = rms_norm(config.rms_norm_eps, upcast="full_layer")
    decoder = dense_decoder(
        config,
        layers=[_layer(config, norm, index) for index in range(config.num_hidden_layers)],
        output_norm=norm,
        input_scale=math.sqrt(config.hidden_size),
        logit_soft_cap=config.final_logit_softcapping,
    )
    return decoder.model_copy(update={"ple_model_config": _model_ple(config, norm)})


def _layer(config: Config, norm: NormalizationConfig, index: int) -> TransformerLayerConfig:
    span = spans(config)[index]
    mixer = _mixer(config, norm, index, span)
    is_wide = config.use_double_wide_mlp and mixer.is_kv_sharing
    block = layer(
        norm=norm,
        post_norm=norm,
        mixer=mixer,
        mlp=_beside_experts(config, norm) if config.enable_moe_block else dense_mlp(GELU_TANH),
        rope=_rope(config, FULL if span is None else SLIDING, mixer.head_dim),
        hidden_dim=config.intermediate_size * (2 if is_wide else 1),
    )
    more = {
        "pre_mlp_norm_config": _scaleless(norm) if config.enable_moe_block else norm,
        "ple_config": _layer_ple(config, norm),
        "has_post_layer_scalar": True,
        "kv_source_layer_index": _source(config, index) if mixer.is_kv_sharing else None,
    }
    return block.model_copy(update=more)


def _mixer(
    config: Config, norm: NormalizationConfig, index: int, span: int | None
) -> AttentionConfig:
    own = config.sizes(index, span is None)
    mixer = attention(
        num_heads=config.num_attention_heads,
        num_groups=own.num_key_value_heads or config.num_groups,
        head_dim=own.head_dim or config.head_dim,
        query_key_norm=norm,
        scale=1.0,
        window=span,
        qkv_biases=config.attention_bias,
        out_biases=config.attention_bias,
    )
    is_sharing = index >= config.num_unshared
    return mixer.model_copy(update={"normalize_values": True, "is_kv_sharing": is_sharing})


def _scaleless(norm: NormalizationConfig) -> NormalizationConfig:
    """Dense MLP, experts and router norm the stream alike, and scale it by vectors of their own."""
    return norm.model_copy(update={"has_scale": False})


def _beside_experts(config: Config, norm: NormalizationConfig) -> DenseAndMixtureConfig:
    experts, active, width = config.num_experts, config.top_k_experts, config.moe_intermediate_size
    if experts is None or active is None or width is None:
        raise ConfigError(
            "config.json: enable_moe_block: expected num_experts, top_k_experts and "
            f"moe_intermediate_size with it, found {experts}, {active} and {width}"
        )
    return DenseAndMixtureConfig(
        type="DenseAndMixtureConfig",
        dense_config=dense_mlp(GELU_TANH),
        post_dense_norm_config=norm,
        mixture_config=mixture(
            num_experts=experts,
            num_active=active,
            hidden_dim=width,
            expert=dense_mlp(GELU_TANH),
            routing=ScaledSoftmaxRouting(type="ScaledSoftmaxRouting"),
        ),
        post_mixture_norm_config=norm,
    )


def _rope(config: Config, layer_type: str, head_dim: int) -> RoPEConfig:
    ropes = config.rope_parameters or DEFAULT_ROPES
    return read_rope(
        ropes.get(layer_type), head_dim=head_dim, max_positions=config.max_position_embeddings
    )


def _source(config: Config, index: int) -> int:
    """The last layer that has a cache of its own and the same kind of attention."""
    is_full = [span is None for span in spans(config)]
    same = [i for i in range(config.num_unshared) if is_full[i] == is_full[index]]
    if not same:
        raise ConfigError(
            f"config.json: num_kv_shared_layers: layer {index} shares a cache, and no layer of its "
            f"type before {config.num_unshared} has one"
        )
    return same[-1]


def _model_ple(config: Config, norm: NormalizationConfig) -> PLEModelConfig | None:
    if not config.hidden_size_per_layer_input:
        return None
    return PLEModelConfig(
        ple_dim=config.hidden_size_per_layer_input,
        num_layers=config.num_hidden_layers,
        ple_vocab_size=config.vocab_size_per_layer_input,
        ple_embed_scale=math.sqrt(config.hidden_size_per_layer_input),
        model_projection_scale=config.hidden_size**-0.5,
        input_scale=2**-0.5,
        linear_config=LinearConfig(),
        norm_config=norm,
    )


def _layer_ple(config: Config, norm: NormalizationConfig) -> PLELayerConfig | None:
    if not config.hidden_size_per_layer_input:
        return None
    return PLELayerConfig(
        linear_config=LinearConfig(),
        norm_config=norm,
        ple_dim=config.hidden_size_per_layer_input,
        activation=GELU_TANH,
    )


SHARES = Unused("the layer reads another's cache; transformers does not load these either")
LAYER, MLP, PLE = llama.LAYER, f"{llama.LAYER}.mlp", "per_layer_embedding"

# fmt: off
WEIGHTS: Table = {
    "model.embed_tokens.weight":                          TOKEN_TABLE,
    "lm_head.weight":                                     READOUT,
    "model.embed_tokens_per_layer.weight":                f"{PLE}.token_embedding",
    "model.per_layer_model_projection.weight":            f"{PLE}.model_projection.weights",
    "model.per_layer_projection_norm.weight":             f"{PLE}.projection_norm.scales",
    "model.layers.{i}.input_layernorm.weight":            f"{LAYER}.pre_mixer_norm.scales",
    "model.layers.{i}.self_attn.q_norm.weight":           f"{LAYER}.mixer.query_norm.scales",
    "model.layers.{i}.self_attn.o_proj.weight":           f"{LAYER}.mixer.out_projection.weights",
    "model.layers.{i}.self_attn.o_proj.bias":             f"{LAYER}.mixer.out_projection.biases",
    "model.layers.{i}.post_attention_layernorm.weight":   f"{LAYER}.post_mixer_norm.scales",
    "model.layers.{i}.post_feedforward_layernorm.weight": f"{LAYER}.post_mlp_norm.scales",
    "model.layers.{i}.per_layer_input_gate.weight":       f"{LAYER}.ple.gate.weights",
    "model.layers.{i}.per_layer_projection.weight":       f"{LAYER}.ple.projection.weights",
    "model.layers.{i}.post_per_layer_input_norm.weight":  f"{LAYER}.ple.norm.scales",
    "model.layers.{i}.layer_scalar":                      f"{LAYER}.post_layer_scalar",
    "model.norm.weight":                                  "transformer.output_norm.scales",
}
# fmt: on


# fmt: off
DENSE: Table = {
    "model.layers.{i}.pre_feedforward_layernorm.weight":  f"{LAYER}.pre_mlp_norm.scales",
    "model.layers.{i}.mlp.{up,gate}_proj.weight":         f"{MLP}.up_projection.weights",
    "model.layers.{i}.mlp.down_proj.weight":              f"{MLP}.down_projection.weights",
}


def beside_experts(config: Config) -> Table:
    """The router's input is scaled twice, by a vector and by the root of the width: once here."""
    layer, root = "model.layers.{i}", config.hidden_size**-0.5
    dense, experts = f"{MLP}.dense", f"{MLP}.mixture.experts"
    up, down = f"{experts}.up_projection.weights", f"{experts}.down_projection.weights"
    return {
        f"{layer}.pre_feedforward_layernorm.weight":    f"{MLP}.dense_scales",
        f"{layer}.mlp.{{up,gate}}_proj.weight":         f"{dense}.up_projection.weights",
        f"{layer}.mlp.down_proj.weight":                f"{dense}.down_projection.weights",
        f"{layer}.post_feedforward_layernorm_1.weight": f"{MLP}.post_dense_norm.scales",
        f"{layer}.router.scale":             Target(f"{MLP}.router_scales", values=times(root)),
        f"{layer}.router.proj.weight":                  f"{MLP}.mixture.router.weights",
        f"{layer}.router.per_expert_scale":             f"{MLP}.mixture.router.expert_scales",
        f"{layer}.pre_feedforward_layernorm_2.weight":  f"{MLP}.mixture_scales",
        f"{layer}.experts.gate_up_proj":      Target(up, packed=True, rows=second_half_first),
        f"{layer}.experts.down_proj":         Target(down, packed=True),
        f"{layer}.post_feedforward_layernorm_2.weight": f"{MLP}.post_mixture_norm.scales",
    }
# fmt: on


def weights(config: Config) -> Table:
    """Where keys and values come from differs between layers, so each has rows of its own."""
    table = {**WEIGHTS, **(beside_experts(config) if config.enable_moe_block else DENSE)}
    for index, span in enumerate(spans(config)):
        table |= _key_value_rows(config, index, is_full=span is None)
    return table


def _key_value_rows(config: Config, index: int, *, is_full: bool) -> Table:
    source, mixer = f"model.layers.{index}.self_attn", f"transformer.layers.{index}.mixer"
    is_sharing = index >= config.num_unshared
    values_are_keys = config.attention_k_eq_v and is_full
    blocks = "q" if is_sharing else "{q,k,k}" if values_are_keys else "{q,k,v}"
    rows = {
        f"{source}.{blocks}_proj.weight": f"{mixer}.qkvg_projection.weights",
        f"{source}.{blocks}_proj.bias": f"{mixer}.qkvg_projection.biases",
    }
    if is_sharing:
        return {**rows, f"{source}.{{k,v}}_proj.*": SHARES, f"{source}.k_norm.weight": SHARES}
    return {**rows, f"{source}.k_norm.weight": f"{mixer}.key_norm.scales"}


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=weights,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "gemma4_text",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "global_head_dim": 32,
        "num_kv_shared_layers": 2,
        "use_double_wide_mlp": True,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True,
        "attention_bias": True,
        "sliding_window": 16,
        "layer_types": [SLIDING, FULL, SLIDING, FULL],
        "final_logit_softcapping": 12.0,
        "vocab_size_per_layer_input": 384,
        "hidden_size_per_layer_input": 16,
        "rope_parameters": {
            FULL: {
                "rope_type": "proportional",
                "rope_theta": 1000000.0,
                "partial_rotary_factor": 0.25,
            },
            SLIDING: {"rope_type": "default", "rope_theta": 10000.0},
        },
    },
    variants=(
        {
            "attention_k_eq_v": True,
            "num_global_key_value_heads": 1,
            "num_kv_shared_layers": 0,
            "hidden_size_per_layer_input": 0,
            "final_logit_softcapping": None,
        },
        {
            "rope_parameters": {
                FULL: {"rope_type": "proportional", "rope_theta": 500000.0, "factor": 2.0},
                SLIDING: {"rope_type": "default", "rope_theta": 10000.0},
            }
        },
        {
            "enable_moe_block": True,
            "num_experts": 5,
            "top_k_experts": 2,
            "moe_intermediate_size": 64,
        },
    ),
)
