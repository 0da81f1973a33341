"""A gated short convolution whose projections have biases: run as the one without."""

import numpy as np

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import conv, linear, short_conv
from masu.runtime.blocks.context import Context
from masu.runtime.blocks.short_conv import ShortConvParameters, ShortConvState
from masu.runtime.loader import Loader
from masu.specs.blocks.biased_short_conv import BiasedShortConvConfig

KEEPS_ROWS: bool = False


def load(config: BiasedShortConvConfig, loader: Loader, width: int) -> ShortConvParameters:
    inner = config.short_conv_config
    return ShortConvParameters(
        linear.load(loader.under("in_projection"), 3 * width, width, has_biases=True),
        conv.load(inner.conv_config, loader.under("conv"), width, inner.kernel_size),
        linear.load(loader.under("out_projection"), width, width, has_biases=True),
    )


def start(
    backend: Backend, config: BiasedShortConvConfig, width: int, capacity: int, dtype: np.dtype
) -> ShortConvState:
    return short_conv.start(backend, config.short_conv_config, width, capacity, dtype)


def grow(backend: Backend, state: ShortConvState, capacity: int) -> ShortConvState:
    return short_conv.grow(backend, state, capacity)


def apply(
    backend: Backend,
    config: BiasedShortConvConfig,
    parameters: ShortConvParameters,
    x: Array,
    state: ShortConvState,
    context: Context,
) -> tuple[Array, ShortConvState]:
    """`[tokens, width]` -> the same, and the last gated inputs."""
    return short_conv.apply(backend, config.short_conv_config, parameters, x, state, context)
