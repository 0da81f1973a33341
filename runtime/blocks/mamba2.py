"""Mamba-2 as the engine has it, after Llamba: no A, no step bias, an input that is not scaled."""

from typing import NamedTuple

import numpy as np

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import linear, recurrent_state, state_space
from masu.runtime.blocks.context import Context
from masu.runtime.blocks.recurrent_state import RecurrentState, blank_padding
from masu.runtime.blocks.state_space import SILU, StateSpaceParameters
from masu.runtime.loader import Loader
from masu.specs.blocks.mamba2 import Mamba2Config

KEEPS_ROWS: bool = False


class Mamba2Parameters(NamedTuple):
    """`gate_bias` is wide `[num_heads * head_dim]`."""

    state_space: StateSpaceParameters
    gate_bias: Array


def load(config: Mamba2Config, loader: Loader, width: int) -> Mamba2Parameters:
    inner = config.num_heads * config.head_dim
    return Mamba2Parameters(
        state_space.load(config, loader, width), loader.vector("gate_bias", (inner,), "F32")
    )


def start(
    backend: Backend, config: Mamba2Config, width: int, capacity: int, dtype: np.dtype
) -> RecurrentState:
    return state_space.start(backend, config, dtype)


grow = recurrent_state.grow


def apply(
    backend: Backend,
    config: Mamba2Config,
    parameters: Mamba2Parameters,
    x: Array,
    state: RecurrentState,
    context: Context,
) -> tuple[Array, RecurrentState]:
    """`[tokens, width]` -> the same: `out((C state + D x) * silu(z + gate_bias))`.

    The state decays by `exp(-softplus(dt))` and gains `B x`.
    """
    common = parameters.state_space
    inputs = state_space.enter(backend, config, common, x, state.history, context)
    log_decay = blank_padding(backend, -backend.softplus(inputs.steps), context)
    out, memory = state_space.scan(backend, inputs, inputs.x, log_decay, common.skip, state.memory)
    gates = backend.activate(inputs.gates + parameters.gate_bias, SILU)
    out = linear.apply(backend, common.out_projection, (out * gates).astype(x.dtype))
    return out, RecurrentState(inputs.history, memory)
