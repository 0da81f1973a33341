"""OLMo 2: norms after each sub-layer and none before, query and key norms over all heads."""

from masu.converter.assemble import attention, dense_decoder, dense_mlp, post_norm_layer, rms_norm
from masu.converter.config import Epsilon, SiluConfig
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.rope import read_rope
from masu.converter.table import Table
from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.full_width_norm_attention import FullWidthNormAttentionConfig
from masu.specs.blocks.norm import NormalizationConfig


class Config(SiluConfig):
    attention_bias: bool = False
    rms_norm_eps: Epsilon = 1e-5


def olmo_norm(epsilon: float) -> NormalizationConfig:
    """The product with the scale stays in float32."""
    return rms_norm(epsilon, upcast="full_layer")


def full_width_norms(
    inner: AttentionConfig, norm: NormalizationConfig
) -> FullWidthNormAttentionConfig:
    """Attention with a norm over all queries, and one over all keys, of a token."""
    return FullWidthNormAttentionConfig(
        type="FullWidthNormAttentionConfig",
        attention_config=inner,
        norm_span="all_heads",
        query_norm_config=norm,
        key_norm_config=norm,
    )


def build(config: Config) -> DecoderConfig:
    norm = olmo_norm(config.rms_norm_eps)
    inner = attention(
        num_heads=config.num_attention_heads,
        num_groups=config.num_groups,
        head_dim=config.even_head_dim,
        qkv_biases=config.attention_bias,
        out_biases=config.attention_bias,
    )
    block = post_norm_layer(
        norm=norm,
        mixer=full_width_norms(inner, norm),
        mlp=dense_mlp(),
        rope=read_rope(
            config.rope_parameters,
            head_dim=config.even_head_dim,
            max_positions=config.max_position_embeddings,
        ),
    )
    return dense_decoder(config, layers=[block] * config.num_hidden_layers, output_norm=norm)


# fmt: off
WEIGHTS: Table = {
    **{key: target for key, target in llama.WEIGHTS.items() if "input_layernorm" not in key},
    "model.layers.{i}.self_attn.q_norm.weight":           f"{llama.LAYER}.mixer.query_norm.scales",
    "model.layers.{i}.self_attn.k_norm.weight":           f"{llama.LAYER}.mixer.key_norm.scales",
    "model.layers.{i}.post_attention_layernorm.weight":   f"{llama.LAYER}.post_mixer_norm.scales",
    "model.layers.{i}.post_feedforward_layernorm.weight": f"{llama.LAYER}.post_mlp_norm.scales",
}
# fmt: on

FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "olmo2",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "attention_bias": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
    },
)
