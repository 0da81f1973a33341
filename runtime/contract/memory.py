"""Memory with guard bytes on both sides: what writes beside an operand is found out."""

from dataclasses import replace

import numpy as np

from masu.runtime.contract.operation import Call
from masu.runtime.weights import Weight

ALIGNMENT = 64
GUARD = 256
"""Bytes on either side. All ones, which is NaN in every float type: who reads them is seen too."""


class GuardedMemory:
    """Arrays that lie each between guard bytes."""

    def __init__(self) -> None:
        self._guards: list[tuple[str, np.ndarray]] = []

    def place(self, name: str, values: np.ndarray) -> np.ndarray:
        """A copy of an array, at an address that XLA would choose too."""
        room = self.empty(name, values.shape, values.dtype)
        room[...] = values
        return room

    def empty(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Room for an array; every byte in it is all ones as well."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        memory = np.full(size + 2 * GUARD + ALIGNMENT, 0xFF, np.uint8)
        start = GUARD + -(memory.ctypes.data + GUARD) % ALIGNMENT
        self._guards += [(name, memory[:start]), (name, memory[start + size :])]
        return memory[start : start + size].view(dtype).reshape(shape)

    def place_call(self, call: Call) -> Call:
        """The call with all its operands, and what is stored of its matrices, between guards."""
        arrays = {name: self.place(name, values) for name, values in call.arrays.items()}
        weights = tuple(map(self._place_weight, call.weights))
        return replace(call, arrays=arrays, weights=weights, in_place=True)

    def _place_weight(self, weight: Weight) -> Weight:
        stored = {suffix: self.place(suffix, array) for suffix, array in weight.arrays.items()}
        return replace(weight, arrays=stored)

    def broken(self) -> list[str]:
        """The arrays beside which something was written."""
        broken = [name for name, guard in self._guards if (guard != 0xFF).any()]
        return list(dict.fromkeys(broken))
