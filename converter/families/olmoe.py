"""OLMoE: norms over all queries and all keys of a token, and a mixture of experts everywhere."""

from typing import ClassVar

from masu.converter.assemble import attention, dense_decoder, layer, rms_norm
from masu.converter.config import Epsilon, SiluConfig
from masu.converter.families import qwen3
from masu.converter.families.olmo2 import full_width_norms
from masu.converter.families.qwen2_moe import MLP, routed_weights
from masu.converter.family import Family
from masu.converter.mixture import mixture, softmax_routing
from masu.converter.rope import read_rope
from masu.converter.table import Table
from masu.specs.blocks.decoder import DecoderConfig


class Config(SiluConfig):
    RENAMED: ClassVar = {"num_local_experts": "num_experts"}

    rms_norm_eps: Epsilon = 1e-5
    attention_bias: bool = False
    clip_qkv: None = None
    """No release clips its queries, keys and values, and no block here does."""
    num_experts: int = 64
    num_experts_per_tok: int = 8
    norm_topk_prob: bool = False


def build(config: Config) -> DecoderConfig:
    norm = rms_norm(config.rms_norm_eps)
    inner = attention(
        num_heads=config.num_attention_heads,
        num_groups=config.num_groups,
        head_dim=config.even_head_dim,
        qkv_biases=config.attention_bias,
        out_biases=config.attention_bias,
    )
    block = layer(
        norm=norm,
        mixer=full_width_norms(inner, norm),
        mlp=mixture(
            num_experts=config.num_experts,
            num_active=config.num_experts_per_tok,
            hidden_dim=config.intermediate_size,
            routing=softmax_routing(normalized=config.norm_topk_prob),
        ),
        rope=read_rope(
            config.rope_parameters,
            head_dim=config.even_head_dim,
            max_positions=config.max_position_embeddings,
        ),
    )
    return dense_decoder(config, layers=[block] * config.num_hidden_layers, output_norm=norm)


WEIGHTS: Table = {**qwen3.WEIGHTS, **routed_weights(MLP)}

FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "olmoe",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "attention_bias": True,
        "num_experts": 5,
        "num_experts_per_tok": 2,
        "norm_topk_prob": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    },
    variants=({"norm_topk_prob": True, "attention_bias": False},),
)
