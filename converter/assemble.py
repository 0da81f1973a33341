"""The engine's blocks as families write them: what most models share is the default."""

from collections.abc import Iterable
from typing import Literal, Protocol

from masu.specs.blocks.activation import GELU, Activation, SiLU
from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.dense_mlp import DenseMLPConfig
from masu.specs.blocks.embedding import (
    BiasedReadoutConfig,
    EmbeddingConfig,
    TiedEmbeddingConfig,
    UntiedEmbeddingConfig,
    tables_of,
)
from masu.specs.blocks.layer import TransformerLayerConfig
from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.mixer import TokenMixerConfig
from masu.specs.blocks.mlp import MLPConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.blocks.parallel_layer import ParallelLayerConfig
from masu.specs.blocks.post_norm_layer import PostNormLayerConfig
from masu.specs.blocks.rope import RoPEConfig
from masu.specs.blocks.single_mixer_layer import SingleMixerLayerConfig
from masu.specs.blocks.transformer import LayerConfig, TransformerConfig
from masu.specs.blocks.ungated_mlp import UngatedMLPConfig

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


def layer_norm(
    epsilon: float,
    *,
    biases: bool = True,
    upcast: Literal["only_normalization", "full_layer"] = "full_layer",
) -> NormalizationConfig:
    """A norm that subtracts the mean, computed in float32 to its end, as torch does."""
    return NormalizationConfig(
        epsilon=epsilon,
        scale_offset=None,
        upcast_mode=upcast,
        subtract_mean=True,
        has_scale=True,
        has_biases=biases,
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
    sinks: bool = False,
) -> AttentionConfig:
    """Causal attention without gate or shared caches."""
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
        has_sinks=sinks,
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


def ungated_mlp(activation: Activation, *, biases: bool = False) -> UngatedMLPConfig:
    return UngatedMLPConfig(
        type="UngatedMLPConfig",
        linear_config=LinearConfig(),
        activation=activation,
        has_up_biases=biases,
        has_down_biases=biases,
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


def post_norm_layer(
    *,
    norm: NormalizationConfig,
    mixer: TokenMixerConfig,
    mlp: MLPConfig,
    rope: RoPEConfig | None,
) -> PostNormLayerConfig:
    """A layer with a norm after the mixer and after the MLP, and none before."""
    return PostNormLayerConfig(
        type="PostNormLayerConfig",
        mixer_config=mixer,
        post_mixer_norm_config=norm,
        mlp_config=mlp,
        post_mlp_norm_config=norm,
        rope_config=rope,
    )


def parallel_layer(
    *,
    norm: NormalizationConfig,
    mixer: TokenMixerConfig,
    mlp: MLPConfig,
    rope: RoPEConfig | None,
) -> ParallelLayerConfig:
    """A layer whose mixer and MLP both read the stream through its one norm."""
    return ParallelLayerConfig(
        type="ParallelLayerConfig",
        norm_config=norm,
        mixer_config=mixer,
        mlp_config=mlp,
        rope_config=rope,
    )


def single_mixer_layer(
    *,
    norm: NormalizationConfig,
    mixer: TokenMixerConfig | None = None,
    mlp: MLPConfig | None = None,
) -> SingleMixerLayerConfig:
    """A layer that is one of the two; without rotation."""
    return SingleMixerLayerConfig(
        type="SingleMixerLayerConfig",
        norm_config=norm,
        mixer_config=mixer,
        mlp_config=mlp,
        rope_config=None,
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


def retied(config: EmbeddingConfig, tied: bool) -> EmbeddingConfig:
    """The same embedding with one table or with two."""
    tables = embedding(tied=tied, **tables_of(config).model_dump(exclude={"type"}))
    return biased_readout(tables) if isinstance(config, BiasedReadoutConfig) else tables


def biased_readout(tables: TiedEmbeddingConfig | UntiedEmbeddingConfig) -> BiasedReadoutConfig:
    """An embedding whose readout has biases, `embedding.readout_biases` in weight tables."""
    return BiasedReadoutConfig(type="BiasedReadoutConfig", tables_config=tables)


class Sizes(Protocol):
    """The keys of a config that say how large a decoder is."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def hidden_size(self) -> int: ...

    @property
    def intermediate_size(self) -> int: ...

    @property
    def tie_word_embeddings(self) -> bool: ...


def dense_decoder(
    config: Sizes,
    *,
    layers: Iterable[LayerConfig],
    output_norm: NormalizationConfig,
    input_scale: float | None = None,
    logit_soft_cap: float | None = None,
    logit_scale: float | None = None,
    hidden_dim: int | None = None,
) -> DecoderConfig:
    """A stack of layers between a token table and a readout, with the config's sizes.

    `hidden_dim` is for an MLP whose width is not the config's `intermediate_size`.
    """
    return DecoderConfig(
        embedding_config=embedding(
            tied=config.tie_word_embeddings,
            input_scale=input_scale,
            logit_soft_cap=logit_soft_cap,
            logit_scale=logit_scale,
        ),
        transformer_config=TransformerConfig(
            layer_configs=tuple(layers),
            output_norm_config=output_norm,
            model_dim=config.hidden_size,
            hidden_dim=config.intermediate_size if hidden_dim is None else hidden_dim,
        ),
        vocab_size=config.vocab_size,
        ple_model_config=None,
        embedding_norm_config=None,
    )
