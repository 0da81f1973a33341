"""A step of many compiled functions as one program, run without XLA between its kernels.

The arrays of the states are written over where they stand: a step owns what it was given up.
Between steps a program keeps none of them: the caches of a run end with the run.
"""

import ctypes
import threading
import weakref
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from masu.runtime.backends.native.lowering import Lowered, Unsupported, lower
from masu.runtime.backends.native.program import Place


class InOne:
    """`function(*arguments, states) -> (result, states)`, the states given up and returned.

    Attributes:
        reason: why the function runs as it is; None where it is a program.
    """

    def __init__(self, function: Callable[..., tuple[Any, Any]]) -> None:
        self._function = function
        self._bound: dict[Any, _Bound] = {}
        self._latest: _Bound | None = None
        self._lock = threading.Lock()
        self.reason: str | None = None

    def __call__(self, *arguments: Any) -> tuple[Any, Any]:
        if self.reason is not None:
            return self._function(*arguments)
        leaves, tree = jax.tree_util.tree_flatten(arguments)
        with self._lock:
            latest = self._latest
            if latest is None or not latest.fits(leaves, tree):
                latest = self._find(arguments, leaves, tree)
            if latest is not None:
                return latest.run(leaves), arguments[-1]
        return self._function(*arguments)

    def _find(self, arguments: tuple[Any, ...], leaves: list[Any], tree: Any) -> "_Bound | None":
        """The program for arrays of these shapes, bound to them; None if there can be none."""
        key = (tree, *map(jax.typeof, leaves))
        if self._latest is not None:
            self._latest.release()
            self._latest = None
        try:
            if key not in self._bound:
                self._bound[key] = self._made(arguments, leaves, tree)
            self._bound[key].bind(leaves)
        except Unsupported as cause:
            self.reason = str(cause)
            return None
        self._latest = self._bound[key]
        return self._latest

    def _made(self, arguments: tuple[Any, ...], leaves: list[Any], tree: Any) -> "_Bound":
        traced = jax.make_jaxpr(self._function)(*arguments)
        states = len(jax.tree_util.tree_leaves(arguments[-1]))
        return _Bound(lower(traced), leaves, tree, states)


class _Bound:
    """A program, and while it is used its memory and the arrays that its arguments are read from.

    There is one for each capacity of the caches; what they take beside the memory is small.
    """

    def __init__(self, lowered: Lowered, leaves: list[Any], tree: Any, states: int) -> None:
        self._lowered, self._tree, self._states = lowered, tree, states
        self.release()
        self._given: list[Any] = [
            None if isinstance(leaf, jax.Array) else np.array(leaf, jax.typeof(leaf).dtype)
            for leaf in leaves
        ]
        self._is_array = [isinstance(leaf, jax.Array) for leaf in leaves]
        self._held: list[Any] = [None] * len(leaves)
        memory = []
        for block, value in lowered.constants.items():
            memory.append((block, _address(value)))
        for block, array in zip(lowered.inputs, self._given, strict=True):
            if array is not None:
                memory.append((block, array.ctypes.data))
        lowered.program.bind(memory)

    def release(self) -> None:
        """Without memory, until it is bound again."""
        self._arena = self._result = np.empty(0, np.uint8)
        self._copies: list[tuple[np.ndarray, int]] = []

    def fits(self, leaves: list[Any], tree: Any) -> bool:
        """Whether these are the arrays that it is bound to."""
        return tree == self._tree and all(
            leaf is held()
            for leaf, held, is_array in zip(leaves, self._held, self._is_array, strict=True)
            if is_array
        )

    def bind(self, leaves: list[Any]) -> None:
        """Read from, and write to, these arrays from now on."""
        self._arena = _aligned(self._lowered.arena)
        result, *after = self._lowered.outputs
        self._result = self._view(result)
        self._copies = self._anew(after, self._lowered.inputs[len(leaves) - self._states :])
        memory = [(0, self._arena.ctypes.data)]
        for place, leaf in enumerate(leaves):
            if self._is_array[place]:
                self._held[place] = weakref.ref(leaf.block_until_ready())
                memory.append((self._lowered.inputs[place], leaf.unsafe_buffer_pointer()))
        self._addresses = dict(memory)
        self._lowered.program.bind(memory)

    def run(self, leaves: list[Any]) -> np.ndarray:
        """The result, in memory of its own; the states are those that were bound."""
        for leaf, array in zip(leaves, self._given, strict=True):
            if array is not None:
                array[...] = leaf
        self._lowered.program.run()
        for values, block in self._copies:
            ctypes.memmove(self._addresses[block], values.ctypes.data, values.nbytes)
        return self._result.copy()

    def _anew(self, after: list[Place], blocks: list[int]) -> list[tuple[np.ndarray, int]]:
        """States that are not written over where they stand, and the blocks they belong into."""
        pairs = zip(after, blocks, strict=True)
        return [(self._view(place), block) for place, block in pairs if place.block != block]

    def _view(self, place: Place) -> np.ndarray:
        if place.block != 0:
            raise Unsupported("a result that is another argument")
        values = self._arena[place.offset : place.offset + place.size]
        return values.view(place.dtype).reshape(place.shape)


def _aligned(size: int) -> np.ndarray:
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size]


def _address(value: Any) -> int:
    if isinstance(value, jax.Array):
        return value.block_until_ready().unsafe_buffer_pointer()
    return value.ctypes.data
