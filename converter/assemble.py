"""The engine's blocks as families write them: what most models share is the default."""

from collections.abc import Iterable
from typing import Literal

from masu.converter.config import DenseConfig
from masu.specs.blocks.activation import GELU, Activation, SiLU
from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.embedding import TiedEmbeddingConfig, UntiedEmbeddingConfig
from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.mlp import DenseMLPConfig, MLPConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.blocks.rope import RoPEConfig
from masu.specs.blocks.transformer import (
    TokenMixerConfig,
    TransformerConfig,
    TransformerLayerConfig,
)

SILU = SiLU(type="SiLU", alpha=1.0)
GELU_TANH = GELU(type="GELU", approximate=True)


def rms_norm(
    epsilon: float,
    *,
    offset: float | None = None,
    upcast: Literal["only_normalization", "full_layer"] = "only_normalization",
) -> NormalizationConfig:
    """A root-mean-square norm with a scale; `offset` 1 where the checkpoint stores scale - 1."""
    return NormalizationConfig(
        epsilon=epsilon,
        scale_offset=offset,
        upcast_mode=upcast,
        subtract_mean=False,
        has_scale=True,
        has_biases=False,
    )


def attention(
    *,
    num_heads: int,
    num_groups: int,
    head_dim: int,
    query_key_norm: NormalizationConfig | None = None,
    scale: float | None = None,
    window: int | None = None,
    soft_cap: float | None = None,
    qkv_biases: bool = False,
    out_biases: bool = False,
) -> AttentionConfig:
    """Causal attention without sinks, gate or shared caches."""
    return AttentionConfig(
        type="AttentionConfig",
        qkvg_projection_config=LinearConfig(),
        out_projection_config=LinearConfig(),
        query_norm_config=query_key_norm,
        key_norm_config=query_key_norm,
        num_heads=num_heads,
        num_groups=num_groups,
        head_dim=head_dim,
        is_causal=True,
        scale=scale,
        sliding_window_size=window,
        logit_soft_cap=soft_cap,
        has_sinks=False,
        has_qkvg_biases=qkv_biases,
        has_out_biases=out_biases,
        has_gate=False,
        normalize_values=False,
        is_kv_sharing=False,
    )


def dense_mlp(activation: Activation = SILU, *, biases: bool = False) -> DenseMLPConfig:
    return DenseMLPConfig(
        type="DenseMLPConfig",
        linear_config=LinearConfig(),
        activation=activation,
        has_up_biases=biases,
        has_down_biases=biases,
        gate_clipping=None,
        up_clipping=None,
    )


def layer(
    *,
    norm: NormalizationConfig,
    mixer: TokenMixerConfig,
    mlp: MLPConfig,
    rope: RoPEConfig | None,
    post_norm: NormalizationConfig | None = None,
    hidden_dim: int | None = None,
) -> TransformerLayerConfig:
    """A pre-norm layer; `post_norm` adds a norm after the mixer and after the MLP."""
    return TransformerLayerConfig(
        pre_mixer_norm_config=norm,
        mixer_conv_config=None,
        mixer_config=mixer,
        post_mixer_norm_config=post_norm,
        pre_mlp_norm_config=norm,
        mlp_conv_config=None,
        mlp_config=mlp,
        post_mlp_norm_config=post_norm,
        hidden_dim=hidden_dim,
        ple_config=None,
        has_post_layer_scalar=False,
        kv_source_layer_index=None,
        rope_config=rope,
    )


def embedding(
    *,
    tied: bool,
    input_scale: float | None = None,
    logit_soft_cap: float | None = None,
    logit_scale: float | None = None,
) -> TiedEmbeddingConfig | UntiedEmbeddingConfig:
    if tied:
        return TiedEmbeddingConfig(
            type="TiedEmbeddingConfig",
            input_scale=input_scale,
            logit_soft_cap=logit_soft_cap,
            logit_scale=logit_scale,
        )
    return UntiedEmbeddingConfig(
        type="UntiedEmbeddingConfig",
        input_scale=input_scale,
        logit_soft_cap=logit_soft_cap,
        logit_scale=logit_scale,
    )


def dense_decoder(
    config: DenseConfig,
    *,
    layers: Iterable[TransformerLayerConfig],
    output_norm: NormalizationConfig,
    input_scale: float | None = None,
    logit_soft_cap: float | None = None,
) -> DecoderConfig:
    """A stack of layers between a token table and a readout, with the config's sizes."""
    return DecoderConfig(
        embedding_config=embedding(
            tied=config.tie_word_embeddings,
            input_scale=input_scale,
            logit_soft_cap=logit_soft_cap,
        ),
        transformer_config=TransformerConfig(
            layer_configs=tuple(layers),
            output_norm_config=output_norm,
            model_dim=config.hidden_size,
            hidden_dim=config.intermediate_size,
        ),
        vocab_size=config.vocab_size,
        ple_model_config=None,
        embedding_norm_config=None,
    )
