"""LFM2-MoE: LFM2 with mixtures of experts, routed by sigmoids, above the first layers."""

from typing import ClassVar

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer, rms_norm
from masu.converter.config import DenseConfig, Epsilon
from masu.converter.families import lfm2, llama
from masu.converter.family import Family
from masu.converter.layer_kinds import layer_kinds
from masu.converter.mixture import mixture, sigmoid_routing
from masu.converter.rope import read_rope
from masu.converter.sliding import FULL
from masu.converter.table import Table
from masu.specs.blocks.decoder import DecoderConfig


class Config(DenseConfig):
    RENAMED: ClassVar = {
        "norm_eps": "rms_norm_eps",
        "num_local_experts": "num_experts",
        "tie_embedding": "tie_word_embeddings",
    }

    rms_norm_eps: Epsilon = 1e-5
    tie_word_embeddings: bool = True
    conv_bias: bool = False
    conv_L_cache: int = 3  # noqa: N815 - the checkpoint's spelling
    layer_types: tuple[str, ...]
    num_dense_layers: int = 2
    num_experts: int = 32
    num_experts_per_tok: int = 4
    moe_intermediate_size: int = 1792
    norm_topk_prob: bool = True
    routed_scaling_factor: float = 1.0
    use_expert_bias: bool = True


def build(config: Config) -> DecoderConfig:
    norm = rms_norm(config.rms_norm_eps)
    attending = attention(
        num_heads=config.num_attention_heads,
        num_groups=config.num_groups,
        head_dim=config.even_head_dim,
        query_key_norm=norm,
    )
    sparse = mixture(
        num_experts=config.num_experts,
        num_active=config.num_experts_per_tok,
        hidden_dim=config.moe_intermediate_size,
        routing=sigmoid_routing(
            corrected=config.use_expert_bias,
            normalized=config.norm_topk_prob,
            epsilon=1e-6,
            scale=config.routed_scaling_factor,
        ),
    )
    rope = read_rope(
        config.rope_parameters,
        head_dim=config.even_head_dim,
        max_positions=config.max_position_embeddings,
        default_theta=1000000.0,
    )
    conv = lfm2.short_conv(config.conv_L_cache, biases=config.conv_bias)
    kinds = layer_kinds(config.layer_types, [FULL] * config.num_hidden_layers, (lfm2.CONV, FULL))
    layers = [
        layer(
            norm=norm,
            mixer=attending if kind == FULL else conv,
            mlp=sparse if index >= config.num_dense_layers else dense_mlp(),
            rope=rope if kind == FULL else None,
        )
        for index, kind in enumerate(kinds)
    ]
    return dense_decoder(config, layers=layers, output_norm=norm)


# fmt: off
ROUTER, EXPERTS = f"{llama.LAYER}.mlp.router", f"{llama.LAYER}.mlp.experts"
UP, DOWN = f"{EXPERTS}.up_projection.weights", f"{EXPERTS}.down_projection.weights"
WEIGHTS: Table = {
    **lfm2.WEIGHTS,
    "model.layers.{i}.feed_forward.gate.weight":                f"{ROUTER}.weights",
    "model.layers.{i}.feed_forward.expert_bias":                f"{ROUTER}.correction_biases",
    "model.layers.{i}.feed_forward.experts.{e}.{w3,w1}.weight": UP,
    "model.layers.{i}.feed_forward.experts.{e}.w2.weight":      DOWN,
}
# fmt: on

FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "lfm2_moe",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "norm_eps": 1e-5,
        "tie_word_embeddings": True,
        "conv_L_cache": 3,
        "layer_types": ["conv", "full_attention", "conv", "full_attention"],
        "num_dense_layers": 1,
        "num_experts": 5,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
        "norm_topk_prob": True,
        "routed_scaling_factor": 1.6,
        "use_expert_bias": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    },
    variants=(
        {"norm_topk_prob": False, "conv_bias": True},
        {"use_expert_bias": False, "num_dense_layers": 0, "tie_word_embeddings": False},
    ),
)
