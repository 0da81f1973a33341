"""Gemma 3, text only: query and key norms, and two rotary bases, for windows and for the whole."""

import math
from typing import Any, ClassVar, Literal

from masu.converter.assemble import GELU_TANH, attention, dense_decoder, dense_mlp, layer
from masu.converter.config import DenseConfig, Epsilon, Size
from masu.converter.families import gemma2, qwen3
from masu.converter.families.gemma import GeluTanh, gemma_norm
from masu.converter.family import Family
from masu.converter.rope import read_rope
from masu.converter.sliding import FULL, SLIDING, windows
from masu.converter.table import Table
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.rope import RoPEConfig
from masu.specs.errors import ConfigError

GLOBAL_THETA, LOCAL_THETA = 1000000.0, 10000.0


class Config(DenseConfig):
    """Published configs leave out what equals transformers' defaults, sizes included."""

    INERT: ClassVar = {
        "_sliding_window_pattern": "layer_types or sliding_window_pattern decides",
    }

    vocab_size: int = 262208
    hidden_size: int = 2304
    intermediate_size: int = 9216
    num_hidden_layers: int = 26
    num_attention_heads: int = 8
    num_key_value_heads: int | None = 4
    head_dim: Size = 256
    hidden_act: GeluTanh = "gelu_pytorch_tanh"
    hidden_activation: GeluTanh = "gelu_pytorch_tanh"
    max_position_embeddings: int = 131072
    rms_norm_eps: Epsilon = 1e-6
    tie_word_embeddings: bool = True
    attention_bias: bool = False
    query_pre_attn_scalar: float = 256
    sliding_window: int | None = 4096
    sliding_window_pattern: int = 6
    layer_types: tuple[str, ...] | None = None
    attn_logit_softcapping: None = None
    """transformers stores a value here and never applies it; which is meant is not knowable."""
    final_logit_softcapping: float | None = None
    use_bidirectional_attention: Literal[False] | None = False


def ropes(config: Config) -> tuple[RoPEConfig, RoPEConfig]:
    """The rotations of full and of sliding layers. Flat parameters are those of full layers."""
    given: dict[str, Any] = config.rope_parameters or {}
    per_type = FULL in given or SLIDING in given
    if per_type and (strays := sorted(given.keys() - {FULL, SLIDING})):
        raise ConfigError(
            "config.json: rope_parameters: expected one entry per layer type, "
            f"found {', '.join(strays)} beside them"
        )
    full = given.get(FULL) if per_type else given
    sizes: dict[str, Any] = {
        "head_dim": config.head_dim,
        "max_positions": config.max_position_embeddings,
    }
    return (
        read_rope(full, default_theta=GLOBAL_THETA, **sizes),
        read_rope(given.get(SLIDING), default_theta=LOCAL_THETA, **sizes),
    )


def build(config: Config) -> DecoderConfig:
    norm = gemma_norm(config.rms_norm_eps)
    full, local = ropes(config)
    pattern = config.sliding_window_pattern
    slides = [(index + 1) % pattern != 0 for index in range(config.num_hidden_layers)]
    layers = [
        layer(
            norm=norm,
            post_norm=norm,
            mixer=attention(
                num_heads=config.num_attention_heads,
                num_groups=config.num_groups,
                head_dim=config.head_dim,
                query_key_norm=norm,
                scale=config.query_pre_attn_scalar**-0.5,
                window=window,
                qkv_biases=config.attention_bias,
                out_biases=config.attention_bias,
            ),
            mlp=dense_mlp(GELU_TANH),
            rope=full if window is None else local,
        )
        for window in windows(config.layer_types, slides, config.sliding_window)
    ]
    return dense_decoder(
        config,
        layers=layers,
        output_norm=norm,
        input_scale=math.sqrt(config.hidden_size),
        logit_soft_cap=config.final_logit_softcapping,
    )


WEIGHTS: Table = {**qwen3.WEIGHTS, **gemma2.WEIGHTS}

FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "gemma3_text",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True,
        "attention_bias": True,
        "query_pre_attn_scalar": 40,
        "sliding_window": 16,
        "sliding_window_pattern": 3,
        "final_logit_softcapping": 12.0,
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 4.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    },
)
