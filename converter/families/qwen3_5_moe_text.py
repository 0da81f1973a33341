"""Qwen3.5 (3.6) with mixtures of experts, text only: Qwen3.5 whose MLPs are all sparse."""

from typing import ClassVar, Literal

from masu.converter.assemble import dense_decoder, layer
from masu.converter.families import qwen2_moe, qwen3_5_text
from masu.converter.families.qwen2_moe import sparse_mlp
from masu.converter.families.qwen3_5_text import (
    HybridConfig,
    delta_net,
    gated_attention,
    hybrid_norm,
    partial_rope,
)
from masu.converter.family import Family
from masu.converter.sliding import FULL
from masu.converter.table import Table
from masu.specs.blocks.decoder import DecoderConfig


class Config(HybridConfig):
    INERT: ClassVar = qwen3_5_text.Config.INERT

    intermediate_size: int = 0
    """Of dense MLPs, of which there are none."""
    num_experts: int = 256
    num_experts_per_tok: int = 8
    moe_intermediate_size: int = 512
    shared_expert_intermediate_size: int = 512
    norm_topk_prob: Literal[True] = True


def build(config: Config) -> DecoderConfig:
    norm, rope = hybrid_norm(config), partial_rope(config)
    layers = [
        layer(
            norm=norm,
            mixer=gated_attention(config) if kind == FULL else delta_net(config),
            mlp=sparse_mlp(config),
            rope=rope if kind == FULL else None,
        )
        for kind in config.kinds
    ]
    width = config.moe_intermediate_size
    return dense_decoder(config, layers=layers, output_norm=norm, hidden_dim=width)


def weights(config: Config) -> Table:
    return {**qwen3_5_text.weights(config), **qwen2_moe.expert_weights(config)}


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=weights,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "qwen3_5_moe_text",
        **qwen3_5_text.TINY,
        "intermediate_size": 64,
        "num_experts": 5,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
        "shared_expert_intermediate_size": 64,
    },
    variants=(
        {"shared_expert_intermediate_size": 128, "tie_word_embeddings": True},
        {"attention_bias": False},
    ),
)
