"""Mixtral: Mistral with a mixture of experts in every layer."""

from typing import ClassVar

from masu.converter.assemble import attention, dense_decoder, layer, rms_norm
from masu.converter.config import NOT_INFERENCE, SiluConfig, Size
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.mixture import mixture
from masu.converter.rope import read_rope
from masu.converter.table import Table
from masu.specs.blocks.decoder import DecoderConfig


class Config(SiluConfig):
    INERT: ClassVar = {"router_jitter_noise": NOT_INFERENCE}
    RENAMED: ClassVar = {"num_experts": "num_local_experts"}

    head_dim: Size | None = None
    sliding_window: int | None = None
    num_experts_per_tok: int = 2
    num_local_experts: int = 8


def build(config: Config) -> DecoderConfig:
    head_dim = config.head_dim or config.even_head_dim
    norm = rms_norm(config.rms_norm_eps)
    block = layer(
        norm=norm,
        mixer=attention(
            num_heads=config.num_attention_heads,
            num_groups=config.num_groups,
            head_dim=head_dim,
            window=config.sliding_window,
        ),
        mlp=mixture(
            num_experts=config.num_local_experts,
            num_active=config.num_experts_per_tok,
            hidden_dim=config.intermediate_size,
        ),
        rope=read_rope(
            config.rope_parameters,
            head_dim=head_dim,
            max_positions=config.max_position_embeddings,
            default_theta=1000000.0,
        ),
    )
    return dense_decoder(config, layers=[block] * config.num_hidden_layers, output_norm=norm)


# fmt: off
ROUTER, EXPERTS = f"{llama.LAYER}.mlp.router", f"{llama.LAYER}.mlp.experts"
UP, DOWN = f"{EXPERTS}.up_projection.weights", f"{EXPERTS}.down_projection.weights"
WEIGHTS: Table = {
    **llama.WEIGHTS,
    "model.layers.{i}.block_sparse_moe.gate.weight":                f"{ROUTER}.weights",
    "model.layers.{i}.block_sparse_moe.experts.{e}.{w3,w1}.weight": UP,
    "model.layers.{i}.block_sparse_moe.experts.{e}.w2.weight":      DOWN,
}
# fmt: on

FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "mixtral",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "sliding_window": 16,
        "num_experts_per_tok": 2,
        "num_local_experts": 5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    },
    variants=({"num_experts_per_tok": 1}, {"num_experts_per_tok": 5}),
)
