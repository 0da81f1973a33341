"""What both kinds of Mamba-2 share: projections, the convolution, the split into heads."""

from typing import NamedTuple, TypeAlias

import numpy as np

from masu.runtime.backend import Array, Backend, wide_dtype
from masu.runtime.blocks import conv, linear
from masu.runtime.blocks.context import Context
from masu.runtime.blocks.conv import ConvParameters
from masu.runtime.blocks.linear import Linear
from masu.runtime.blocks.recurrent_state import RecurrentState, blank_padding
from masu.runtime.loader import Loader
from masu.specs.blocks.activation import SiLU
from masu.specs.blocks.general_mamba2 import GeneralMamba2Config
from masu.specs.blocks.mamba2 import Mamba2Config

StateSpaceConfig: TypeAlias = Mamba2Config | GeneralMamba2Config

SILU = SiLU(type="SiLU", alpha=1.0)
"""Of the gate; the config's `activation` is that of the convolved channels."""


class StateSpaceParameters(NamedTuple):
    """`in_projection` has rows xBC, z (gate), dt; `skip` is wide `[num_heads]`."""

    in_projection: Linear
    conv: ConvParameters
    out_projection: Linear
    skip: Array


class Inputs(NamedTuple):
    """One step's rows, all wide; padding is zero in what enters the recurrence.

    Attributes:
        x: `[tokens, heads, head_dim]`.
        keys, queries: `[tokens, groups, state_dim]`, called B and C in the paper.
        gates: `[tokens, heads * head_dim]`.
        steps: `[tokens, heads]`, as projected.
        history: the convolution's, after this step.
    """

    x: Array
    keys: Array
    queries: Array
    gates: Array
    steps: Array
    history: Array


def load(config: StateSpaceConfig, loader: Loader, width: int) -> StateSpaceParameters:
    inner, channels = config.num_heads * config.head_dim, _channels(config)
    into, out = loader.under("in_projection"), loader.under("out_projection")
    rows = channels + inner + config.num_heads
    return StateSpaceParameters(
        linear.load(into, rows, width, has_biases=config.has_in_biases),
        conv.load(config.conv_config, loader.under("conv"), channels, config.kernel_size),
        linear.load(out, width, inner, has_biases=config.has_out_biases),
        loader.vector("skip_connection_weight", (config.num_heads,), "F32"),
    )


def start(backend: Backend, config: StateSpaceConfig, dtype: np.dtype) -> RecurrentState:
    """Before the first token; what enters the convolution is wide, so its history is."""
    wide = wide_dtype(dtype)
    return RecurrentState(
        backend.zeros((config.kernel_size - 1, _channels(config)), wide),
        backend.zeros((config.num_heads, config.state_dim, config.head_dim), wide),
    )


def enter(
    backend: Backend,
    config: StateSpaceConfig,
    parameters: StateSpaceParameters,
    x: Array,
    history: Array,
    context: Context,
) -> Inputs:
    """The projected and convolved rows of `x` `[tokens, width]`; nothing is rounded on the way."""
    channels, heads, tokens = _channels(config), config.num_heads, x.shape[0]
    projected = backend.readout(x, parameters.in_projection.weights)
    if parameters.in_projection.biases is not None:
        projected = projected + parameters.in_projection.biases
    mixed, history = conv.apply(backend, parameters.conv, projected[:, :channels], history, context)
    mixed = blank_padding(backend, backend.activate(mixed, config.activation), context)
    inner, states = heads * config.head_dim, config.num_groups * config.state_dim
    return Inputs(
        mixed[:, :inner].reshape(tokens, heads, -1),
        mixed[:, inner : inner + states].reshape(tokens, config.num_groups, -1),
        mixed[:, inner + states :].reshape(tokens, config.num_groups, -1),
        projected[:, channels:-heads],
        projected[:, -heads:],
        history,
    )


def scan(
    backend: Backend,
    inputs: Inputs,
    values: Array,
    log_decay: Array,
    skip: Array,
    memory: Array,
) -> tuple[Array, Array]:
    """The recurrence and its skip connection: wide `[tokens, inner]`, and the memory after it."""
    out, memory = backend.recur(inputs.queries, inputs.keys, values, log_decay, None, memory)
    out = out + backend.scaled(inputs.x, skip)
    return out.reshape(out.shape[0], -1), memory


def _channels(config: StateSpaceConfig) -> int:
    """Those that pass the convolution: x, B and C."""
    return config.num_heads * config.head_dim + 2 * config.num_groups * config.state_dim
