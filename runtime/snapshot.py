"""The part of a run's states that a step overwrites for good: kept aside, and put back.

A cache has a row for every token, and forgets the last ones by not looking at them. Every array
outside of a cache has a fixed size and holds all tokens at once.
"""

from typing import Any

from masu.runtime.backend import Backend
from masu.runtime.blocks.attention import KVCache


def copied(backend: Backend, state: Any) -> Any:
    """A layer's state (or a tuple of them) in arrays of its own."""
    if state is None:
        return None
    if isinstance(state, tuple):
        return _like(state, [copied(backend, part) for part in state])
    return backend.copy(state)


def fixed_part(state: Any) -> Any:
    """The same state with None in the place of every cache."""
    if state is None or isinstance(state, KVCache):
        return None
    if isinstance(state, tuple):
        return _like(state, [fixed_part(part) for part in state])
    return state


def restored(state: Any, fixed: Any) -> Any:
    """The state with the arrays of an earlier `fixed_part` of it."""
    if fixed is None:
        return state
    if isinstance(fixed, tuple):
        return _like(fixed, [restored(*pair) for pair in zip(state, fixed, strict=True)])
    return fixed


def _like(state: tuple[Any, ...], parts: list[Any]) -> Any:
    """The parts as the same kind of tuple."""
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
