"""Softmax attention with grouped heads over a cache of keys and values."""

from typing import NamedTuple

import numpy as np

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import linear, norm
from masu.runtime.blocks.context import Context
from masu.runtime.blocks.linear import Linear
from masu.runtime.blocks.norm import NormParameters
from masu.runtime.loader import Loader
from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.norm import NormalizationConfig

VALUE_NORM = NormalizationConfig(
    epsilon=1e-6,
    scale_offset=None,
    upcast_mode="only_normalization",
    subtract_mean=False,
    has_scale=False,
    has_biases=False,
)
"""What `normalize_values` means; the config has no more to say about it."""


class AttentionParameters(NamedTuple):
    """`qkvg_projection` has rows Q, K, V, G; `sinks` is a wide score `[heads]`."""

    qkvg_projection: Linear
    out_projection: Linear
    query_norm: NormParameters | None
    key_norm: NormParameters | None
    sinks: Array | None


class KVCache(NamedTuple):
    """Keys (turned) and values, `[groups, capacity, head_dim]` in the activations' dtype."""

    keys: Array
    values: Array


def load(config: AttentionConfig, loader: Loader, width: int) -> AttentionParameters:
    """A layer that reads another's cache has no K and V rows, and no norm for keys."""
    queries = config.num_heads * config.head_dim
    keys = 0 if config.is_kv_sharing else config.num_groups * config.head_dim
    rows = queries + 2 * keys + (queries if config.has_gate else 0)
    key_norm = None if config.is_kv_sharing else config.key_norm_config
    return AttentionParameters(
        linear.load(
            loader.under("qkvg_projection"), rows, width, has_biases=config.has_qkvg_biases
        ),
        linear.load(
            loader.under("out_projection"), width, queries, has_biases=config.has_out_biases
        ),
        norm.load_optional(config.query_norm_config, loader.under("query_norm"), config.head_dim),
        norm.load_optional(key_norm, loader.under("key_norm"), config.head_dim),
        loader.vector("sinks", (config.num_heads,)) if config.has_sinks else None,
    )


def start(
    backend: Backend, config: AttentionConfig, capacity: int, dtype: np.dtype
) -> KVCache | None:
    """An empty cache; None for a layer that reads another's."""
    if config.is_kv_sharing:
        return None
    shape = (config.num_groups, capacity, config.head_dim)
    return KVCache(backend.zeros(shape, dtype), backend.zeros(shape, dtype))


def grow(backend: Backend, state: KVCache | None, capacity: int) -> KVCache | None:
    return state and KVCache(*(backend.grow(buffer, capacity) for buffer in state))


def apply(
    backend: Backend,
    config: AttentionConfig,
    parameters: AttentionParameters,
    x: Array,
    state: KVCache | None,
    context: Context,
) -> tuple[Array, KVCache | None]:
    """`[tokens, width]` -> the same, and the cache with this step's keys and values."""
    projected = linear.apply(backend, parameters.qkvg_projection, x)
    queries, projected = _heads(projected, config.num_heads, config.head_dim)
    queries = norm.apply(backend, config.query_norm_config, parameters.query_norm, queries)
    queries = _rotate(backend, queries, context)
    if state is not None:
        state, projected = _remember(backend, config, parameters, projected, state, context)
    cache: KVCache = context.shared if state is None else state
    out = backend.attention(
        queries,
        *cache,
        position=context.position,
        length=context.length,
        scale=config.head_dim**-0.5 if config.scale is None else config.scale,
        is_causal=config.is_causal,
        window=config.sliding_window_size,
        soft_cap=config.logit_soft_cap,
        sinks=parameters.sinks,
    ).reshape(x.shape[0], -1)
    if config.has_gate:
        out = out * backend.sigmoid(backend.wide(projected)).astype(x.dtype)
    return linear.apply(backend, parameters.out_projection, out), state


def _remember(
    backend: Backend,
    config: AttentionConfig,
    parameters: AttentionParameters,
    projected: Array,
    state: KVCache,
    context: Context,
) -> tuple[KVCache, Array]:
    """The cache with the K and V rows of `projected` written, and the rows that follow them."""
    keys, projected = _heads(projected, config.num_groups, config.head_dim)
    values, projected = _heads(projected, config.num_groups, config.head_dim)
    keys = norm.apply(backend, config.key_norm_config, parameters.key_norm, keys)
    if config.normalize_values:
        values = backend.norm(values, VALUE_NORM, None, None)
    keys = _rotate(backend, keys, context)
    written = [
        backend.write(buffer, backend.xp.swapaxes(rows, 0, 1), context.position)
        for buffer, rows in zip(state, (keys, values), strict=True)
    ]
    return KVCache(*written), projected


def _heads(projected: Array, heads: int, width: int) -> tuple[Array, Array]:
    """The first `heads * width` channels as `[tokens, heads, width]`, and the channels left."""
    taken, left = projected[:, : heads * width], projected[:, heads * width :]
    return taken.reshape(-1, heads, width), left


def _rotate(backend: Backend, x: Array, context: Context) -> Array:
    return x if context.rotation is None else backend.rotate(x, *context.rotation)
