"""Gemma: a scaled tied embedding, norms that store scale - 1, a tanh-GELU MLP."""

import math
from typing import ClassVar, Literal

from masu.converter.assemble import (
    GELU_TANH,
    attention,
    dense_decoder,
    dense_mlp,
    layer,
    rms_norm,
)
from masu.converter.config import DenseConfig, Size
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.rope import read_rope
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.norm import NormalizationConfig

GeluTanh = Literal["gelu_pytorch_tanh"]


def gemma_norm(epsilon: float) -> NormalizationConfig:
    """The checkpoint stores scale - 1; scale and product stay in float32."""
    return rms_norm(epsilon, offset=1.0, upcast="full_layer")


class Config(DenseConfig):
    """`gelu` in this family always meant the tanh form; transformers reads it so."""

    INERT: ClassVar = {"hidden_activation": "hidden_act decides, and both mean the tanh form"}

    head_dim: Size = 256
    hidden_act: Literal["gelu_pytorch_tanh", "gelu"] = "gelu_pytorch_tanh"
    tie_word_embeddings: bool = True
    attention_bias: bool = False
    use_bidirectional_attention: Literal[False] | None = None


def build(config: Config) -> DecoderConfig:
    norm = gemma_norm(config.rms_norm_eps)
    block = layer(
        norm=norm,
        mixer=attention(
            num_heads=config.num_attention_heads,
            num_groups=config.num_groups,
            head_dim=config.head_dim,
            qkv_biases=config.attention_bias,
            out_biases=config.attention_bias,
        ),
        mlp=dense_mlp(GELU_TANH),
        rope=read_rope(
            config.rope_parameters,
            head_dim=config.head_dim,
            max_positions=config.max_position_embeddings,
        ),
    )
    return dense_decoder(
        config,
        layers=[block] * config.num_hidden_layers,
        output_norm=norm,
        input_scale=math.sqrt(config.hidden_size),
    )


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: llama.WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "gemma",
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
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    },
    variants=({"attention_bias": False},),
)
