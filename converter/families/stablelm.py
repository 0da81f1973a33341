"""StableLM: norms that subtract the mean, a quarter of each head turned; the largest are parallel.

StableLM 2 12B has attention and MLP side by side, and norms of queries and keys with scales of
their own for every head.
"""

from typing import ClassVar, Literal

from masu.converter.assemble import (
    attention,
    dense_decoder,
    dense_mlp,
    layer,
    layer_norm,
    parallel_layer,
)
from masu.converter.config import NOT_INFERENCE, Epsilon, StackConfig
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.rope import read_rope
from masu.converter.table import Table
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.full_width_norm_attention import FullWidthNormAttentionConfig
from masu.specs.blocks.mixer import TokenMixerConfig
from masu.specs.blocks.rope import RoPEConfig


class Config(StackConfig):
    INERT: ClassVar = {"hidden_dropout": NOT_INFERENCE}

    num_key_value_heads: int | None = 32
    hidden_act: Literal["silu"] = "silu"
    layer_norm_eps: Epsilon = 1e-5
    use_qkv_bias: bool = False
    qk_layernorm: bool = False
    use_parallel_residual: bool = False


def mixer(config: Config) -> TokenMixerConfig:
    inner = attention(
        num_heads=config.num_attention_heads,
        num_groups=config.num_groups,
        head_dim=config.even_head_dim,
        qkv_biases=config.use_qkv_bias,
    )
    if not config.qk_layernorm:
        return inner
    norm = layer_norm(config.layer_norm_eps, biases=False)
    return FullWidthNormAttentionConfig(
        type="FullWidthNormAttentionConfig",
        attention_config=inner,
        norm_span="each_head",
        query_norm_config=norm,
        key_norm_config=norm,
    )


def rope(config: Config) -> RoPEConfig:
    return read_rope(
        {"partial_rotary_factor": 0.25, **(config.rope_parameters or {})},
        head_dim=config.even_head_dim,
        max_positions=config.max_position_embeddings,
        partial=True,
    )


def build(config: Config) -> DecoderConfig:
    norm = layer_norm(config.layer_norm_eps)
    kind = parallel_layer if config.use_parallel_residual else layer
    block = kind(norm=norm, mixer=mixer(config), mlp=dense_mlp(), rope=rope(config))
    return dense_decoder(config, layers=[block] * config.num_hidden_layers, output_norm=norm)


def weights(config: Config) -> Table:
    first = "norm" if config.use_parallel_residual else "pre_mixer_norm"
    attention_ = "model.layers.{i}.self_attn"
    query_heads, key_heads = heads(config.num_attention_heads), heads(config.num_groups)
    # fmt: off
    return {
        **llama.WEIGHTS,
        "model.layers.{i}.input_layernorm.weight":          f"{llama.LAYER}.{first}.scales",
        "model.layers.{i}.input_layernorm.bias":            f"{llama.LAYER}.{first}.biases",
        "model.layers.{i}.post_attention_layernorm.bias":   f"{llama.LAYER}.pre_mlp_norm.biases",
        "model.norm.bias":                                  "transformer.output_norm.biases",
        f"{attention_}.q_layernorm.norms.{query_heads}.weight":
            f"{llama.LAYER}.mixer.query_norm.scales",
        f"{attention_}.k_layernorm.norms.{key_heads}.weight":
            f"{llama.LAYER}.mixer.key_norm.scales",
    }
    # fmt: on


def heads(count: int) -> str:
    """Alternatives of a table row, one for each head."""
    numbers = ",".join(map(str, range(count)))
    return f"{{{numbers}}}" if count > 1 else numbers


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=weights,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "stablelm",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "layer_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "use_qkv_bias": True,
        "qk_layernorm": True,
        "use_parallel_residual": True,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
        },
    },
    variants=(
        {"use_parallel_residual": False},
        {"qk_layernorm": False, "use_qkv_bias": False, "tie_word_embeddings": True},
        {"num_key_value_heads": 1},
    ),
)
