"""Attention whose query and key norms have a scale for every channel of every head."""

from typing import NamedTuple

import numpy as np

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import attention, norm
from masu.runtime.blocks.attention import AttentionParameters, KVCache
from masu.runtime.blocks.context import Context
from masu.runtime.blocks.norm import NormParameters
from masu.runtime.loader import Loader
from masu.specs.blocks.full_width_norm_attention import FullWidthNormAttentionConfig
from masu.specs.blocks.norm import NormalizationConfig

KEEPS_ROWS: bool = True


class FullWidthNormAttentionParameters(NamedTuple):
    """The norms' vectors are as wide as what one mean is taken over, or `[heads, head_dim]`."""

    attention: AttentionParameters
    query_norm: NormParameters
    key_norm: NormParameters


def load(
    config: FullWidthNormAttentionConfig, loader: Loader, width: int
) -> FullWidthNormAttentionParameters:
    inner = config.attention_config
    query_norm, key_norm = loader.under("query_norm"), loader.under("key_norm")
    return FullWidthNormAttentionParameters(
        attention.load(inner, loader, width),
        _load_norm(config, config.query_norm_config, query_norm, inner.num_heads),
        _load_norm(config, config.key_norm_config, key_norm, inner.num_groups),
    )


def _load_norm(
    config: FullWidthNormAttentionConfig,
    norm_config: NormalizationConfig,
    loader: Loader,
    heads: int,
) -> NormParameters:
    head_dim = config.attention_config.head_dim
    flat = norm.load(norm_config, loader, heads * head_dim)
    if config.norm_span == "all_heads":
        return flat
    return NormParameters(
        *(part if part is None else part.reshape(heads, head_dim) for part in flat)
    )


def start(
    backend: Backend,
    config: FullWidthNormAttentionConfig,
    width: int,
    capacity: int,
    dtype: np.dtype,
) -> KVCache | None:
    return attention.start(backend, config.attention_config, width, capacity, dtype)


grow = attention.grow


def apply(
    backend: Backend,
    config: FullWidthNormAttentionConfig,
    parameters: FullWidthNormAttentionParameters,
    x: Array,
    state: KVCache | None,
    context: Context,
) -> tuple[Array, KVCache | None]:
    """`[tokens, width]` -> the same, and the cache with this step's keys and values."""
    inner = config.attention_config
    heads = attention.project(backend, inner, parameters.attention, x)
    heads = heads._replace(
        queries=_normed(
            backend, config, config.query_norm_config, parameters.query_norm, heads.queries
        ),
        keys=_normed(backend, config, config.key_norm_config, parameters.key_norm, heads.keys),
    )
    heads = attention.rotate(backend, heads, context)
    return attention.attend(backend, inner, parameters.attention, heads, state, context)


def _normed(
    backend: Backend,
    config: FullWidthNormAttentionConfig,
    norm_config: NormalizationConfig,
    parameters: NormParameters,
    heads: Array,
) -> Array:
    """`[tokens, heads, head_dim]` -> the same."""
    if config.norm_span == "each_head":
        return norm.apply(backend, norm_config, parameters, heads)
    flat = heads.reshape(heads.shape[0], -1)
    return norm.apply(backend, norm_config, parameters, flat).reshape(heads.shape)
