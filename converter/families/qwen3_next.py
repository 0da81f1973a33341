"""Qwen3-Next: Gated DeltaNet and gated attention, with mixtures of experts beside a shared one.

The projections of a DeltaNet layer are two, each with the rows of one key head after the other;
the engine has one, with all queries first, then all keys, and so on.
"""

from typing import ClassVar

from masu.converter.assemble import dense_decoder, dense_mlp, layer
from masu.converter.families import llama, qwen2_moe, qwen3_5_text
from masu.converter.families.qwen2_moe import has_experts, sparse_mlp
from masu.converter.families.qwen3_5_text import (
    HybridConfig,
    delta_net,
    gated_attention,
    hybrid_norm,
    mixer_weights,
    partial_rope,
)
from masu.converter.family import Family
from masu.converter.grouped_rows import every_part
from masu.converter.sliding import FULL
from masu.converter.table import Table, Target
from masu.specs.blocks.decoder import DecoderConfig


class Config(HybridConfig):
    INERT: ClassVar = {
        "use_sliding_window": "transformers does not read it: attention sees everything"
    }

    decoder_sparse_step: int = 1
    mlp_only_layers: tuple[int, ...] | None = None
    num_experts: int = 512
    num_experts_per_tok: int = 10
    moe_intermediate_size: int = 512
    shared_expert_intermediate_size: int = 512
    norm_topk_prob: bool = True


def build(config: Config) -> DecoderConfig:
    norm, rope = hybrid_norm(config), partial_rope(config)
    layers = [
        layer(
            norm=norm,
            mixer=gated_attention(config) if kind == FULL else delta_net(config),
            mlp=sparse_mlp(config) if is_sparse else dense_mlp(),
            rope=rope if kind == FULL else None,
        )
        for kind, is_sparse in zip(config.kinds, has_experts(config), strict=True)
    ]
    return dense_decoder(config, layers=layers, output_norm=norm)


def projection_weights(config: HybridConfig) -> Table:
    """For each key head: q, k, and v and z of its value heads; b and a of its value heads."""
    values = config.linear_num_value_heads // config.linear_num_key_heads
    width = values * config.linear_value_head_dim
    qkvz = (config.linear_key_head_dim, config.linear_key_head_dim, width, width)
    rows = (
        *(every_part(qkvz, place) for place in range(4)),
        *(every_part((values, values), place) for place in range(2)),
    )
    source = "model.layers.{i}.linear_attn.in_proj_{qkvz,qkvz,qkvz,qkvz,ba,ba}.weight"
    return {source: Target(f"{llama.LAYER}.mixer.in_proj.weights", rows=rows)}


def weights(config: Config) -> Table:
    return {
        **mixer_weights(config),
        **projection_weights(config),
        **qwen2_moe.expert_weights(config),
    }


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=weights,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "qwen3_next",
        **qwen3_5_text.TINY,
        "intermediate_size": 64,
        "mlp_only_layers": [1],
        "num_experts": 5,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
        "shared_expert_intermediate_size": 64,
    },
    variants=(
        {
            "attention_bias": False,
            "norm_topk_prob": False,
            "shared_expert_intermediate_size": 96,
        },
        {"mlp_only_layers": None, "decoder_sparse_step": 2, "tie_word_embeddings": True},
    ),
)
