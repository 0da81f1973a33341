"""Mamba-2 in full: a learned decay and step bias, an input scaled by the step, a gated norm."""

from typing import NamedTuple

import numpy as np

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import linear, norm, recurrent_state, state_space
from masu.runtime.blocks.context import Context
from masu.runtime.blocks.norm import NormParameters
from masu.runtime.blocks.recurrent_state import RecurrentState, blank_padding
from masu.runtime.blocks.state_space import SILU, StateSpaceParameters
from masu.runtime.loader import Loader
from masu.specs.blocks.general_mamba2 import GeneralMamba2Config

KEEPS_ROWS: bool = False


class GeneralMamba2Parameters(NamedTuple):
    """Wide vectors: `dt_bias` and `a_log` `[num_heads]`, those of the norm `[inner]`."""

    state_space: StateSpaceParameters
    norm: NormParameters | None
    dt_bias: Array
    a_log: Array


def load(config: GeneralMamba2Config, loader: Loader, width: int) -> GeneralMamba2Parameters:
    heads = config.num_heads
    return GeneralMamba2Parameters(
        state_space.load(config, loader, width),
        norm.load_optional(config.norm_config, loader.under("norm"), heads * config.head_dim),
        loader.vector("dt_bias", (heads,), "F32"),
        loader.vector("a_log", (heads,), "F32"),
    )


def start(
    backend: Backend, config: GeneralMamba2Config, width: int, capacity: int, dtype: np.dtype
) -> RecurrentState:
    return state_space.start(backend, config, dtype)


grow = recurrent_state.grow


def apply(
    backend: Backend,
    config: GeneralMamba2Config,
    parameters: GeneralMamba2Parameters,
    x: Array,
    state: RecurrentState,
    context: Context,
) -> tuple[Array, RecurrentState]:
    """`[tokens, width]` -> the same; the state decays by `exp(-exp(a_log) dt)` and gains `B x dt`.

    `dt` is `softplus(projected + dt_bias)` within the limits.
    """
    common = parameters.state_space
    inputs = state_space.enter(backend, config, common, x, state.history, context)
    steps = backend.softplus(inputs.steps + parameters.dt_bias)
    steps = blank_padding(backend, backend.clip(steps, config.step_limits), context)
    log_decay = -backend.xp.exp(parameters.a_log) * steps
    values = backend.scaled(inputs.x, steps)
    out, memory = state_space.scan(backend, inputs, values, log_decay, common.skip, state.memory)
    out = _gated(backend, config, parameters.norm, out, inputs.gates)
    out = linear.apply(backend, common.out_projection, out.astype(x.dtype))
    return out, RecurrentState(inputs.history, memory)


def _gated(
    backend: Backend,
    config: GeneralMamba2Config,
    parameters: NormParameters | None,
    out: Array,
    gates: Array,
) -> Array:
    """Wide `[tokens, inner]`, gated and normed in the config's order."""
    gates = backend.activate(gates, SILU)
    if config.norm_before_gate:
        return _normed(backend, config, parameters, out) * gates
    return _normed(backend, config, parameters, out * gates)


def _normed(
    backend: Backend,
    config: GeneralMamba2Config,
    parameters: NormParameters | None,
    out: Array,
) -> Array:
    """Over each of `num_groups` equal parts of the channels."""
    if parameters is None:
        return out
    parts = (config.num_groups, -1)
    vectors = (None if each is None else each.reshape(parts) for each in parameters)
    grouped = out.reshape(out.shape[0], *parts)
    normed = norm.apply(backend, config.norm_config, NormParameters(*vectors), grouped)
    return normed.reshape(out.shape)
