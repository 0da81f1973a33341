"""Ministral 3: Mistral with YaRN, and queries that grow past the original context."""

from typing import Any

from pydantic import ValidationError

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer, rms_norm
from masu.converter.config import SiluConfig, Size
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.rope import read_scaled_rope
from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.mixer import TokenMixerConfig
from masu.specs.blocks.position_scaled_attention import PositionScaledAttentionConfig
from masu.specs.errors import ConfigError

BETA, ORIGINAL = "llama_4_scaling_beta", "original_max_position_embeddings"


class Config(SiluConfig):
    head_dim: Size | None = 128
    sliding_window: int | None = None


def rope_parameters(config: Config) -> dict[str, Any]:
    """Without the scale of the queries, and without a copy of the config's own maximum."""
    given = dict(config.rope_parameters or DEFAULT_ROPE)
    given.pop(BETA, None)
    given.pop("max_position_embeddings", None)
    return given


def position_scaled(config: Config, inner: AttentionConfig) -> TokenMixerConfig:
    """Attention with the growing queries of the config's `rope_parameters`."""
    given = config.rope_parameters or DEFAULT_ROPE
    try:
        return PositionScaledAttentionConfig.model_validate(
            {
                "type": "PositionScaledAttentionConfig",
                "attention_config": inner,
                "beta": given.get(BETA),
                "original_context_length": given.get(ORIGINAL),
            }
        )
    except ValidationError:
        found = {key: given.get(key) for key in (BETA, ORIGINAL)}
        raise ConfigError(
            "config.json: rope_parameters: the growth of the queries is not clear: expected "
            f"a number {BETA} and a positive integer {ORIGINAL}, found {found}"
        ) from None


def build(config: Config) -> DecoderConfig:
    norm = rms_norm(config.rms_norm_eps)
    head_dim = config.head_dim or config.even_head_dim
    rope, scale = read_scaled_rope(
        rope_parameters(config), head_dim=head_dim, max_positions=config.max_position_embeddings
    )
    inner = attention(
        num_heads=config.num_attention_heads,
        num_groups=config.num_groups,
        head_dim=head_dim,
        scale=scale,
        window=config.sliding_window,
    )
    block = layer(norm=norm, mixer=position_scaled(config, inner), mlp=dense_mlp(), rope=rope)
    return dense_decoder(config, layers=[block] * config.num_hidden_layers, output_norm=norm)


DEFAULT_ROPE = {
    "rope_type": "yarn",
    "rope_theta": 1000000.0,
    "factor": 16.0,
    "original_max_position_embeddings": 16384,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}
"""What transformers takes where config.json has no `rope_parameters`."""

FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: llama.WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "ministral3",
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
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 1000000.0,
            "factor": 8.0,
            "original_max_position_embeddings": 24,
            "max_position_embeddings": 256,
            "mscale": 1.0,
            "mscale_all_dim": 0.5,
            "llama_4_scaling_beta": 0.6,
        },
    },
    variants=({"sliding_window": None, "tie_word_embeddings": True},),
)
