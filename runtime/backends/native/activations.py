"""How the kernels number activation functions, and how they take clips: `Activation` of cpp."""

import math

from masu.specs.blocks.activation import GELU, Activation, SiLU, SquaredReLU
from masu.specs.blocks.dense_mlp import Clipping

IDENTITY, SILU, TANH_GELU, EXACT_GELU, SQUARED_RELU, SIGMOID, SOFT_CAP, SOFTPLUS = range(8)
"""`Function` of cpp/between.h."""


def function_of(activation: Activation) -> tuple[int, float]:
    """An activation's number and its parameter."""
    match activation:
        case SiLU(alpha=alpha):
            return SILU, alpha
        case GELU(approximate=True):
            return TANH_GELU, 0.0
        case GELU():
            return EXACT_GELU, 0.0
        case SquaredReLU():
            return SQUARED_RELU, 0.0
    return IDENTITY, 0.0


def bounds_of(*clippings: Clipping | None) -> tuple[float, ...]:
    """Lowest and highest of each, infinite where a side is open."""
    return tuple(
        infinity if bound is None else bound
        for clipping in clippings
        for bound, infinity in zip(clipping or (None, None), (-math.inf, math.inf), strict=True)
    )
