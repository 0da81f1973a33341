"""An MLP of two projections with an activation function between them."""

from typing import NamedTuple

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import linear
from masu.runtime.blocks.linear import Linear
from masu.runtime.loader import Loader
from masu.specs.blocks.ungated_mlp import UngatedMLPConfig


class UngatedMLPParameters(NamedTuple):
    """`up_projection` `[hidden, width]`."""

    up_projection: Linear
    down_projection: Linear


def load(config: UngatedMLPConfig, loader: Loader, width: int, hidden: int) -> UngatedMLPParameters:
    up, down = loader.under("up_projection"), loader.under("down_projection")
    return UngatedMLPParameters(
        linear.load(up, hidden, width, has_biases=config.has_up_biases),
        linear.load(down, width, hidden, has_biases=config.has_down_biases),
    )


def apply(
    backend: Backend, config: UngatedMLPConfig, parameters: UngatedMLPParameters, x: Array
) -> Array:
    """`[tokens, width]` -> the same."""
    return backend.ungated_mlp(
        x, *parameters.up_projection, *parameters.down_projection, config.activation
    )
