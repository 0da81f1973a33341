"""A causal depthwise convolution inside a mixer, and the rows that it remembers."""

from typing import NamedTuple

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks.context import Context
from masu.runtime.loader import Loader
from masu.specs.blocks.conv import SeparableCausalConvConfig


class ConvParameters(NamedTuple):
    """Wide `weights` `[channels, taps]`, tap 0 the oldest; wide `biases` `[channels]`."""

    weights: Array
    biases: Array | None


def load(
    config: SeparableCausalConvConfig, loader: Loader, channels: int, taps: int
) -> ConvParameters:
    return ConvParameters(
        loader.vector("weights", (channels, taps), "F32"),
        loader.vector("biases", (channels,), "F32") if config.has_biases else None,
    )


def apply(
    backend: Backend, parameters: ConvParameters, x: Array, history: Array, context: Context
) -> tuple[Array, Array]:
    """Wide `[tokens, channels]`, and the last `taps - 1` rows of the sequence `[rows, channels]`.

    `history` and `x` have one dtype.
    """
    return backend.causal_conv(x, history, *parameters, context.filled)


def apply_gated(
    backend: Backend, parameters: ConvParameters, projected: Array, history: Array, context: Context
) -> tuple[Array, Array]:
    """As `apply`, of projected gates and x `[tokens, 3 * channels]`; not left wide."""
    return backend.gated_conv(projected, history, *parameters, context.filled)
