"""What a recurrent mixer remembers: the last inputs of its convolution, and a matrix per head."""

from typing import NamedTuple

import numpy as np

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks.context import Context


class RecurrentState(NamedTuple):
    """Of a fixed size, however many tokens there were.

    Attributes:
        history: `[taps - 1, channels]`, the last rows that entered the convolution.
        memory: wide `[heads, key_dim, value_dim]`, what queries read.
    """

    history: Array
    memory: Array


def grow(backend: Backend, state: RecurrentState, capacity: int) -> RecurrentState:
    """There is nothing to grow."""
    return state


def blank_padding(backend: Backend, x: Array, context: Context) -> Array:
    """`[tokens, ...]` with rows of padding set to zero, whatever they hold.

    In the logarithm of a decay zero stands for no decay, elsewhere for nothing to add.
    """
    place = np.arange(x.shape[0], dtype=np.int32).reshape(-1, *[1] * (x.ndim - 1))
    return backend.xp.where(place < context.filled, x, 0.0)
