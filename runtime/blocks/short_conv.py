"""A gated short convolution (LFM2): `out(C * conv(B * x))`."""

from typing import NamedTuple

import numpy as np

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import conv, linear
from masu.runtime.blocks.context import Context
from masu.runtime.blocks.conv import ConvParameters
from masu.runtime.blocks.linear import Linear
from masu.runtime.loader import Loader
from masu.specs.blocks.short_conv import ShortConvConfig

KEEPS_ROWS: bool = False


class ShortConvParameters(NamedTuple):
    """`in_projection` has rows B (gate before), C (gate after), x."""

    in_projection: Linear
    conv: ConvParameters
    out_projection: Linear


class ShortConvState(NamedTuple):
    """The last `kernel_size - 1` gated inputs `[rows, width]`, in the activations' dtype."""

    history: Array


def load(config: ShortConvConfig, loader: Loader, width: int) -> ShortConvParameters:
    return ShortConvParameters(
        linear.load(loader.under("in_projection"), 3 * width, width, has_biases=False),
        conv.load(config.conv_config, loader.under("conv"), width, config.kernel_size),
        linear.load(loader.under("out_projection"), width, width, has_biases=False),
    )


def start(
    backend: Backend, config: ShortConvConfig, width: int, capacity: int, dtype: np.dtype
) -> ShortConvState:
    return ShortConvState(backend.zeros((config.kernel_size - 1, width), dtype))


def grow(backend: Backend, state: ShortConvState, capacity: int) -> ShortConvState:
    """There is nothing to grow: the state has one size, however many tokens there were."""
    return state


def apply(
    backend: Backend,
    config: ShortConvConfig,
    parameters: ShortConvParameters,
    x: Array,
    state: ShortConvState,
    context: Context,
) -> tuple[Array, ShortConvState]:
    """`[tokens, width]` -> the same, and the last gated inputs."""
    projected = linear.apply(backend, parameters.in_projection, x)
    out, history = conv.apply_gated(backend, parameters.conv, projected, state.history, context)
    return linear.apply(backend, parameters.out_projection, out), ShortConvState(history)
