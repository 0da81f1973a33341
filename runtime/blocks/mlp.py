"""The gated MLP."""

from typing import NamedTuple

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import linear
from masu.runtime.blocks.linear import Linear
from masu.runtime.loader import Loader
from masu.specs.blocks.dense_mlp import DenseMLPConfig


class DenseMLPParameters(NamedTuple):
    """`up_projection` `[2 * hidden, width]`: up rows, then gate rows."""

    up_projection: Linear
    down_projection: Linear


def load(config: DenseMLPConfig, loader: Loader, width: int, hidden: int) -> DenseMLPParameters:
    up, down = loader.under("up_projection"), loader.under("down_projection")
    return DenseMLPParameters(
        linear.load(up, 2 * hidden, width, has_biases=config.has_up_biases),
        linear.load(down, width, hidden, has_biases=config.has_down_biases),
    )


def apply(
    backend: Backend, config: DenseMLPConfig, parameters: DenseMLPParameters, x: Array
) -> Array:
    """`[tokens, width]` -> the same."""
    return backend.gated_mlp(
        x,
        *parameters.up_projection,
        *parameters.down_projection,
        config.activation,
        config.up_clipping,
        config.gate_clipping,
    )
