"""Seed-OSS: Llama with biases of its own choice on queries, keys and values, and on the output."""

from typing import ClassVar

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer, rms_norm
from masu.converter.config import NOT_INFERENCE, Epsilon, SiluConfig, Size
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.rope import read_rope
from masu.specs.blocks.decoder import DecoderConfig


class Config(SiluConfig):
    INERT: ClassVar = {"residual_dropout": NOT_INFERENCE}

    num_key_value_heads: int | None = 8
    head_dim: Size | None = 128
    rms_norm_eps: Epsilon = 1e-6
    attention_bias: bool = True
    attention_out_bias: bool = False
    mlp_bias: bool = False


def build(config: Config) -> DecoderConfig:
    norm = rms_norm(config.rms_norm_eps)
    head_dim = config.head_dim or config.even_head_dim
    block = layer(
        norm=norm,
        mixer=attention(
            num_heads=config.num_attention_heads,
            num_groups=config.num_groups,
            head_dim=head_dim,
            qkv_biases=config.attention_bias,
            out_biases=config.attention_out_bias,
        ),
        mlp=dense_mlp(biases=config.mlp_bias),
        rope=read_rope(
            config.rope_parameters, head_dim=head_dim, max_positions=config.max_position_embeddings
        ),
    )
    return dense_decoder(config, layers=[block] * config.num_hidden_layers, output_norm=norm)


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: llama.WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "seed_oss",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "attention_bias": True,
        "attention_out_bias": True,
        "mlp_bias": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0},
    },
    variants=({"attention_bias": False}, {"attention_out_bias": False}, {"mlp_bias": False}),
)
