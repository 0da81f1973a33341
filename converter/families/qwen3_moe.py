"""Qwen3-MoE: Qwen3 with mixtures of experts; a window, if there is one, on every layer."""

from typing import ClassVar

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer, rms_norm
from masu.converter.config import SiluConfig, Size
from masu.converter.families import qwen3
from masu.converter.families.qwen2_moe import MLP, has_experts, routed_weights
from masu.converter.family import Family
from masu.converter.mixture import mixture, softmax_routing
from masu.converter.rope import read_rope
from masu.converter.table import Table
from masu.specs.blocks.decoder import DecoderConfig


class Config(SiluConfig):
    RENAMED: ClassVar = {"num_local_experts": "num_experts"}
    INERT: ClassVar = {"max_window_layers": "the windows of this family do not depend on it"}

    head_dim: Size | None = None
    attention_bias: bool = False
    use_sliding_window: bool = False
    sliding_window: int | None = 4096
    decoder_sparse_step: int = 1
    mlp_only_layers: tuple[int, ...] | None = None
    num_experts: int = 128
    num_experts_per_tok: int = 8
    moe_intermediate_size: int = 768
    norm_topk_prob: bool = False


def build(config: Config) -> DecoderConfig:
    head_dim = config.head_dim or config.even_head_dim
    norm = rms_norm(config.rms_norm_eps)
    mixer = attention(
        num_heads=config.num_attention_heads,
        num_groups=config.num_groups,
        head_dim=head_dim,
        query_key_norm=norm,
        window=config.sliding_window if config.use_sliding_window else None,
        qkv_biases=config.attention_bias,
        out_biases=config.attention_bias,
    )
    sparse = mixture(
        num_experts=config.num_experts,
        num_active=config.num_experts_per_tok,
        hidden_dim=config.moe_intermediate_size,
        routing=softmax_routing(normalized=config.norm_topk_prob),
    )
    rope = read_rope(
        config.rope_parameters, head_dim=head_dim, max_positions=config.max_position_embeddings
    )
    layers = [
        layer(norm=norm, mixer=mixer, mlp=sparse if is_sparse else dense_mlp(), rope=rope)
        for is_sparse in has_experts(config)
    ]
    return dense_decoder(config, layers=layers, output_norm=norm)


WEIGHTS: Table = {**qwen3.WEIGHTS, **routed_weights(MLP)}

FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "qwen3_moe",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "attention_bias": True,
        "use_sliding_window": True,
        "sliding_window": 16,
        "mlp_only_layers": [1],
        "num_experts": 5,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
        "norm_topk_prob": True,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    },
    variants=(
        {"norm_topk_prob": False},
        {"mlp_only_layers": [], "decoder_sparse_step": 2, "use_sliding_window": False},
    ),
)
