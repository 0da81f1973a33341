"""The reference: float64 in plain numpy, nothing compiled, caches written in place."""

import numpy as np

from masu.runtime.backend import Array, Backend


class NumpyBackend(Backend):
    """Slow and plain. Narrow activations follow the engine's rounding, to compare with others."""

    name = "numpy"
    dtypes = ("float64", "float32", "bfloat16", "float16")
    xp = np

    def default_dtype(self, stored: str) -> str:
        return "float64"

    def write(self, buffer: Array, rows: Array, position: Array) -> Array:
        room = buffer[:, position : position + rows.shape[1]]
        room[...] = rows[:, : room.shape[1]]
        return buffer


BACKEND = NumpyBackend
