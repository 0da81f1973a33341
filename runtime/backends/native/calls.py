"""How a kernel is called: operands, and the two lists of constants that every kernel takes."""

from typing import Any

import jax
import numpy as np

from masu.runtime.backend import Array

MATRIX = "matrix"
"""The only array of a weight that the kernels serve: see `matrix.described`."""


TILE = 32
"""Rows of a matrix that kernels go through together: `kTile` of cpp/decode.h."""


def like(x: Array) -> jax.ShapeDtypeStruct:
    """An output of the shape and dtype of an operand."""
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def call(
    name: str,
    out: jax.ShapeDtypeStruct | tuple[jax.ShapeDtypeStruct, ...],
    *operands: Array,
    sizes: tuple[int, ...] = (),
    numbers: tuple[float, ...] = (),
    aliases: dict[int, int] | None = None,
) -> Any:
    """One call of a kernel; of several outputs all in a list.

    Args:
        aliases: operands that may share their memory with an output; XLA copies those that are
            still needed.
    """
    run = jax.ffi.ffi_call(name, out, input_output_aliases=aliases)
    return run(*operands, numbers=np.array(numbers, np.float32), sizes=np.array(sizes, np.int32))
