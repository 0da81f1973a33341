"""OLMo 3: OLMo 2 with windows on three layers of four, which keep to plain RoPE."""

from typing import Any

from masu.converter.assemble import attention, dense_decoder, dense_mlp, post_norm_layer
from masu.converter.families import olmo2
from masu.converter.families.olmo2 import full_width_norms, olmo_norm
from masu.converter.family import Family
from masu.converter.rope import read_rope, read_scaled_rope
from masu.converter.sliding import FULL, SLIDING, windows
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.rope import RoPEConfig

THETA = 500000.0


class Config(olmo2.Config):
    sliding_window: int | None = 4096
    layer_types: tuple[str, ...] | None = None


def ropes(config: Config) -> tuple[RoPEConfig, float | None, RoPEConfig]:
    """The rotation of full layers, the scale of their scores, the rotation of sliding layers.

    Flat parameters are those of full layers; sliding ones share their base, not their scaling.
    """
    given: dict[str, Any] = config.rope_parameters or {}
    per_type = FULL in given or SLIDING in given
    full = given.get(FULL) if per_type else given
    base = {key: value for key, value in given.items() if key == "rope_theta"}
    sizes: dict[str, Any] = {
        "head_dim": config.even_head_dim,
        "max_positions": config.max_position_embeddings,
    }
    rope, scale = read_scaled_rope(full, default_theta=THETA, **sizes)
    return rope, scale, read_rope(given.get(SLIDING, base), default_theta=THETA, **sizes)


def build(config: Config) -> DecoderConfig:
    norm = olmo_norm(config.rms_norm_eps)
    full, full_scale, local = ropes(config)
    slides = [(index + 1) % 4 != 0 for index in range(config.num_hidden_layers)]
    layers = [
        post_norm_layer(
            norm=norm,
            mixer=full_width_norms(
                attention(
                    num_heads=config.num_attention_heads,
                    num_groups=config.num_groups,
                    head_dim=config.even_head_dim,
                    scale=full_scale if window is None else None,
                    window=window,
                    qkv_biases=config.attention_bias,
                    out_biases=config.attention_bias,
                ),
                norm,
            ),
            mlp=dense_mlp(),
            rope=full if window is None else local,
        )
        for window in windows(config.layer_types, slides, config.sliding_window)
    ]
    return dense_decoder(config, layers=layers, output_norm=norm)


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: olmo2.WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "olmo3",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "attention_bias": True,
        "sliding_window": 16,
        "rope_parameters": {
            "full_attention": {
                "rope_type": "yarn",
                "rope_theta": 500000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 64,
                "attention_factor": 1.3,
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    },
)
