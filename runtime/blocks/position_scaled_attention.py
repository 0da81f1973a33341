"""Attention whose queries grow with the position."""

import numpy as np

from masu.runtime.backend import Array, Backend, wide_dtype
from masu.runtime.blocks import attention
from masu.runtime.blocks.attention import AttentionParameters, KVCache
from masu.runtime.blocks.context import Context
from masu.runtime.loader import Loader
from masu.specs.blocks.position_scaled_attention import PositionScaledAttentionConfig

KEEPS_ROWS: bool = True


def load(config: PositionScaledAttentionConfig, loader: Loader, width: int) -> AttentionParameters:
    return attention.load(config.attention_config, loader, width)


def start(
    backend: Backend,
    config: PositionScaledAttentionConfig,
    width: int,
    capacity: int,
    dtype: np.dtype,
) -> KVCache | None:
    return attention.start(backend, config.attention_config, width, capacity, dtype)


grow = attention.grow


def apply(
    backend: Backend,
    config: PositionScaledAttentionConfig,
    parameters: AttentionParameters,
    x: Array,
    state: KVCache | None,
    context: Context,
) -> tuple[Array, KVCache | None]:
    """`[tokens, width]` -> the same, and the cache with this step's keys and values."""
    inner = config.attention_config
    heads = attention.project(backend, inner, parameters, x)
    heads = attention.rotate(backend, heads, context)
    factors = query_factors(backend, config, x.shape[0], context, wide_dtype(x.dtype))
    queries = backend.wide(heads.queries) * factors[:, None, None]
    heads = heads._replace(queries=queries.astype(x.dtype))
    return attention.attend(backend, inner, parameters, heads, state, context)


def query_factors(
    backend: Backend,
    config: PositionScaledAttentionConfig,
    tokens: int,
    context: Context,
    wide: np.dtype,
) -> Array:
    """`1 + beta * log(1 + floor(position / original_context_length))`, wide `[tokens]`."""
    xp = backend.xp
    positions = context.position + xp.arange(tokens, dtype=np.int32)
    periods = xp.asarray(positions // np.int32(config.original_context_length), wide)
    return 1.0 + config.beta * xp.log(1.0 + periods)
