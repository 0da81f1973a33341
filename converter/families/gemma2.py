"""Gemma 2: norms before and after each sub-layer, soft caps, a window on every second layer."""

import math
from typing import Literal

from masu.converter.assemble import GELU_TANH, attention, dense_decoder, dense_mlp, layer
from masu.converter.config import DenseConfig, Size
from masu.converter.families import llama
from masu.converter.families.gemma import GeluTanh, gemma_norm
from masu.converter.family import Family
from masu.converter.rope import read_rope
from masu.converter.sliding import windows
from masu.converter.table import Table
from masu.specs.blocks.decoder import DecoderConfig


class Config(DenseConfig):
    head_dim: Size = 256
    hidden_act: GeluTanh = "gelu_pytorch_tanh"
    hidden_activation: GeluTanh = "gelu_pytorch_tanh"
    tie_word_embeddings: bool = True
    attention_bias: bool = False
    query_pre_attn_scalar: float = 256
    sliding_window: int | None = 4096
    layer_types: tuple[str, ...] | None = None
    attn_logit_softcapping: float | None = 50.0
    final_logit_softcapping: float | None = 30.0
    use_bidirectional_attention: Literal[False] | None = None


def build(config: Config) -> DecoderConfig:
    norm = gemma_norm(config.rms_norm_eps)
    rope = read_rope(
        config.rope_parameters,
        head_dim=config.head_dim,
        max_positions=config.max_position_embeddings,
    )
    even = [index % 2 == 0 for index in range(config.num_hidden_layers)]
    layers = [
        layer(
            norm=norm,
            post_norm=norm,
            mixer=attention(
                num_heads=config.num_attention_heads,
                num_groups=config.num_groups,
                head_dim=config.head_dim,
                scale=config.query_pre_attn_scalar**-0.5,
                window=window,
                soft_cap=config.attn_logit_softcapping,
                qkv_biases=config.attention_bias,
                out_biases=config.attention_bias,
            ),
            mlp=dense_mlp(GELU_TANH),
            rope=rope,
        )
        for window in windows(config.layer_types, even, config.sliding_window)
    ]
    return dense_decoder(
        config,
        layers=layers,
        output_norm=norm,
        input_scale=math.sqrt(config.hidden_size),
        logit_soft_cap=config.final_logit_softcapping,
    )


# fmt: off
WEIGHTS: Table = {
    **llama.WEIGHTS,
    "model.layers.{i}.post_attention_layernorm.weight":   f"{llama.LAYER}.post_mixer_norm.scales",
    "model.layers.{i}.pre_feedforward_layernorm.weight":  f"{llama.LAYER}.pre_mlp_norm.scales",
    "model.layers.{i}.post_feedforward_layernorm.weight": f"{llama.LAYER}.post_mlp_norm.scales",
}
# fmt: on

FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "gemma2",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True,
        "attention_bias": True,
        "query_pre_attn_scalar": 24,
        "sliding_window": 16,
        "attn_logit_softcapping": 8.0,
        "final_logit_softcapping": 6.0,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    },
)
