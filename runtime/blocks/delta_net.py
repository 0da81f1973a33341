"""Gated DeltaNet: linear attention whose state is corrected, not only added to.

The recurrence is that of arXiv:2412.06464, with the decay of Mamba-2: see `runtime/recurrence.py`.
"""

from typing import NamedTuple

import numpy as np

from masu.runtime.backend import Array, Backend, wide_dtype
from masu.runtime.blocks import conv, linear, norm, recurrent_state
from masu.runtime.blocks.context import Context
from masu.runtime.blocks.conv import ConvParameters
from masu.runtime.blocks.linear import Linear
from masu.runtime.blocks.norm import NormParameters
from masu.runtime.blocks.recurrent_state import RecurrentState, blank_padding
from masu.runtime.loader import Loader
from masu.specs.blocks.activation import SiLU
from masu.specs.blocks.delta_net import DeltaNetConfig

KEEPS_ROWS: bool = False

SILU = SiLU(type="SiLU", alpha=1.0)
"""Of the convolved channels and of the gate; the config has no word for it."""

KEY_EPSILON = 1e-6
"""Added to the squared length of queries and keys before they are brought to length 1."""


class DeltaNetParameters(NamedTuple):
    """`in_projection` has rows q, k, v, z, b, a; the vectors are wide `[num_heads]`."""

    in_projection: Linear
    conv: ConvParameters
    out_projection: Linear
    norm: NormParameters
    dt_bias: Array
    a_log: Array


def load(config: DeltaNetConfig, loader: Loader, width: int) -> DeltaNetParameters:
    heads, values = config.num_heads, config.num_heads * config.value_head_dim
    channels = _channels(config)
    return DeltaNetParameters(
        linear.load(
            loader.under("in_proj"), channels + values + 2 * heads, width, has_biases=False
        ),
        conv.load(config.conv_config, loader.under("conv"), channels, config.kernel_size),
        linear.load(loader.under("out_proj"), width, values, has_biases=False),
        norm.load(config.norm_config, loader.under("norm"), config.value_head_dim),
        loader.vector("dt_bias", (heads,), "F32"),
        loader.vector("a_log", (heads,), "F32"),
    )


def start(
    backend: Backend, config: DeltaNetConfig, width: int, capacity: int, dtype: np.dtype
) -> RecurrentState:
    memory = (config.num_heads, config.head_dim, config.value_head_dim)
    return RecurrentState(
        backend.zeros((config.kernel_size - 1, _channels(config)), dtype),
        backend.zeros(memory, wide_dtype(dtype)),
    )


grow = recurrent_state.grow


def apply(
    backend: Backend,
    config: DeltaNetConfig,
    parameters: DeltaNetParameters,
    x: Array,
    state: RecurrentState,
    context: Context,
) -> tuple[Array, RecurrentState]:
    """`[tokens, width]` -> the same, and the state after the rows that are no padding."""
    heads, tokens = config.num_heads, x.shape[0]
    projected = linear.apply(backend, parameters.in_projection, x)
    rows, gates = projected[:, : _channels(config)], projected[:, _channels(config) : -2 * heads]
    beta, decay = projected[:, -2 * heads : -heads], projected[:, -heads:]
    mixed, history = conv.apply(backend, parameters.conv, rows, state.history, context)
    mixed = blank_padding(backend, backend.activate(mixed, SILU), context)
    out, memory = backend.recur(
        *_heads(backend, config, mixed),
        blank_padding(backend, _log_decay(backend, parameters, decay), context),
        blank_padding(backend, backend.sigmoid(backend.wide(beta)), context),
        state.memory,
    )
    out = norm.apply(backend, config.norm_config, parameters.norm, out).reshape(tokens, -1)
    out = (out * backend.activate(backend.wide(gates), SILU)).astype(x.dtype)
    return linear.apply(backend, parameters.out_projection, out), RecurrentState(history, memory)


def _heads(backend: Backend, config: DeltaNetConfig, mixed: Array) -> tuple[Array, Array, Array]:
    """Queries and keys `[tokens, groups, head_dim]`, values `[tokens, heads, value_head_dim]`."""
    groups, width = config.num_groups, 2 * config.num_groups * config.head_dim
    both = _unit(backend, mixed[:, :width].reshape(-1, 2 * groups, config.head_dim))
    values = mixed[:, width:].reshape(-1, config.num_heads, config.value_head_dim)
    return both[:, :groups] * config.head_dim**-0.5, both[:, groups:], values


def _unit(backend: Backend, x: Array) -> Array:
    """Each head at length 1, but for `KEY_EPSILON`."""
    return backend.unit(x, KEY_EPSILON)


def _log_decay(backend: Backend, parameters: DeltaNetParameters, decay: Array) -> Array:
    """`-exp(a_log) softplus(a + dt_bias)`, wide `[tokens, heads]`."""
    steps = backend.softplus(backend.wide(decay) + parameters.dt_bias)
    return -backend.xp.exp(parameters.a_log) * steps


def _channels(config: DeltaNetConfig) -> int:
    """Those that pass the convolution: q, k and v."""
    return 2 * config.num_groups * config.head_dim + config.num_heads * config.value_head_dim
