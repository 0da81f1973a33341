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

KEEPS_ROWS: bool = True

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


class Heads(NamedTuple):
    """The projections of one step.

    `queries` `[tokens, num_heads, head_dim]`; `keys` and `values` `[tokens, num_groups,
    head_dim]`, without groups where another layer's cache is read; `gate` `[tokens, num_heads *
    head_dim]`, without channels where the config has none.
    """

    queries: Array
    keys: Array
    values: Array
    gate: Array


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
    backend: Backend, config: AttentionConfig, width: int, capacity: int, dtype: np.dtype
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
    heads = project(backend, config, parameters, x)
    heads = rotate(backend, heads, context)
    return attend(backend, config, parameters, heads, state, context)


def project(
    backend: Backend, config: AttentionConfig, parameters: AttentionParameters, x: Array
) -> Heads:
    """Queries, keys, values and gate of `[tokens, width]`; each head normed, none turned yet."""
    groups = 0 if config.is_kv_sharing else config.num_groups
    left = linear.apply(backend, parameters.qkvg_projection, x)
    queries, left = _heads(left, config.num_heads, config.head_dim)
    keys, left = _heads(left, groups, config.head_dim)
    values, gate = _heads(left, groups, config.head_dim)
    if config.normalize_values:
        values = backend.norm(values, VALUE_NORM, None, None)
    return Heads(
        norm.apply(backend, config.query_norm_config, parameters.query_norm, queries),
        norm.apply(backend, config.key_norm_config, parameters.key_norm, keys),
        values,
        gate,
    )


def rotate(backend: Backend, heads: Heads, context: Context) -> Heads:
    """Queries and keys turned to their places, in a layer with RoPE."""
    if context.rotation is None:
        return heads
    return heads._replace(
        queries=backend.rotate(heads.queries, *context.rotation),
        keys=backend.rotate(heads.keys, *context.rotation),
    )


def attend(
    backend: Backend,
    config: AttentionConfig,
    parameters: AttentionParameters,
    heads: Heads,
    state: KVCache | None,
    context: Context,
) -> tuple[Array, KVCache | None]:
    """The output projection `[tokens, width]`, and the cache with the keys and values written."""
    if state is not None:
        written = (
            backend.write(buffer, backend.xp.swapaxes(rows, 0, 1), context.position)
            for buffer, rows in zip(state, (heads.keys, heads.values), strict=True)
        )
        state = KVCache(*written)
    cache: KVCache = context.shared if state is None else state
    out = backend.attention(
        heads.queries,
        *cache,
        position=context.position,
        length=context.length,
        scale=config.head_dim**-0.5 if config.scale is None else config.scale,
        is_causal=config.is_causal,
        window=config.sliding_window_size,
        soft_cap=config.logit_soft_cap,
        sinks=parameters.sinks,
    ).reshape(heads.queries.shape[0], -1)
    if config.has_gate:
        out = out * backend.sigmoid(backend.wide(heads.gate)).astype(out.dtype)
    return linear.apply(backend, parameters.out_projection, out), state


def _heads(projected: Array, heads: int, width: int) -> tuple[Array, Array]:
    """The first `heads * width` channels as `[tokens, heads, width]`, and the channels left."""
    taken, left = projected[:, : heads * width], projected[:, heads * width :]
    return taken.reshape(projected.shape[0], heads, width), left
