"""Decayed recurrences over a matrix state: the state space of Mamba-2 and the gated delta rule.

For each head, with queries and keys shared by the heads of a group,

    state[t] = exp(log_decay[t]) state[t-1] + outer(keys[t], update[t])
    out[t]   = queries[t] state[t]

A state space adds its values (arXiv:2405.21060); the delta rule adds what the state does not say
yet, `beta[t] (values[t] - keys[t] exp(log_decay[t]) state[t-1])` (arXiv:2412.06464).

A chunk of tokens becomes a few matrix products: updates within it are the solution of a
triangular system, and what they do to each other is attention with decays for a mask. A chunk of
one token is the plain recurrence, read once and written once.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

Array = Any

CHUNK = 64
"""Tokens at a time: the products within a chunk grow with its square. A power of two."""


class Chunk(NamedTuple):
    """Rows of all heads, in one order or another: a width of 1 for the decay and `beta`."""

    queries: Array
    keys: Array
    values: Array
    log_decay: Array
    beta: Array | None

    def each(self, change: Callable[[Array], Array]) -> "Chunk":
        """All arrays changed alike."""
        return Chunk(*(None if x is None else change(x) for x in self))


class Operations(Protocol):
    """What is needed of a backend."""

    @property
    def xp(self) -> Any: ...

    def product(self, left: Array, right: Array) -> Array: ...

    def scan(self, step: Any, state: Any, inputs: Any) -> tuple[Any, Array]: ...


def recur(
    operations: Operations,
    queries: Array,
    keys: Array,
    values: Array,
    log_decay: Array,
    beta: Array | None,
    state: Array,
) -> tuple[Array, Array]:
    """Outputs wide `[tokens, heads, value_dim]`, and the state after them.

    A token with `log_decay` and values (or `beta`) 0 leaves the state as it was, to the bit.

    Args:
        queries, keys: wide `[tokens, groups, key_dim]`; consecutive heads share a group.
        values: wide `[tokens, heads, value_dim]`.
        log_decay: wide `[tokens, heads]`, not positive.
        beta: wide `[tokens, heads]` for the delta rule; None for a state space.
        state: wide `[heads, key_dim, value_dim]`.
    """
    tokens, heads, width = values.shape
    rows, groups = min(CHUNK, 1 << (tokens - 1).bit_length()), keys.shape[1]
    rates = None if beta is None else beta[..., None]
    given = Chunk(queries, keys, values, log_decay[..., None], rates)
    chunks = given.each(lambda x: _in_chunks(operations, x, rows))

    def step(state: Array, chunk: Chunk) -> tuple[Array, Array]:
        parts = chunk.each(lambda x: _grouped(operations, x, groups))
        out, state = _chunk(operations, parts, state)
        return state, operations.xp.swapaxes(out.reshape(heads, rows, width), 0, 1)

    grouped_state = state.reshape(groups, heads // groups, *state.shape[1:])
    grouped_state, out = operations.scan(step, grouped_state, chunks)
    return out.reshape(-1, heads, width)[:tokens], grouped_state.reshape(state.shape)


def _in_chunks(operations: Operations, x: Array, rows: int) -> Array:
    """`[tokens, ...]` as `[chunks, rows, ...]`; rows past the tokens are zero."""
    missing = -len(x) % rows
    whole = operations.xp.pad(x, ((0, missing), *[(0, 0)] * (x.ndim - 1))) if missing else x
    return whole.reshape(-1, rows, *whole.shape[1:])


def _grouped(operations: Operations, x: Array, groups: int) -> Array:
    """`[rows, groups * r, width]` as `[groups, r, rows, width]`."""
    rows, heads, width = x.shape
    return operations.xp.swapaxes(x, 0, 1).reshape(groups, heads // groups, rows, width)


def _chunk(operations: Operations, chunk: Chunk, state: Array) -> tuple[Array, Array]:
    """Outputs `[groups, heads of one, rows, value_dim]`, and the state after the chunk.

    All arrays are `[groups, heads of one, rows, width]`.
    """
    xp, product = operations.xp, operations.product
    queries, keys, values, log_decay, beta = chunk
    rows = queries.shape[2]
    between = decays_between(operations, log_decay[..., 0])
    # From before the chunk to each row, and from each row to the chunk's end.
    since = between[..., :1] * xp.exp(log_decay[:, :, :1])
    until = between[:, :, -1, :, None]
    both = xp.concatenate([queries, keys], axis=2)
    scores = product(both, xp.swapaxes(keys, 2, 3))
    read = product(both, state) * xp.concatenate([since, since], axis=2)
    out, update = read[:, :, :rows], values
    if beta is not None:
        update = beta * (values - read[:, :, rows:])
        system = beta * scores[:, :, rows:] * between
        update = product(inverse_of_unit_lower(operations, system), update)
    out = out + product(scores[:, :, :rows] * between, update)
    added = product(xp.swapaxes(keys * until, 2, 3), update)
    return out, state * since[:, :, -1:] + added


def decays_between(operations: Operations, log_decay: Array) -> Array:
    """`[..., rows, rows]`: entry i, j is the decay after row j up to row i; 0 where i < j.

    Sums of the steps in between, not differences of sums from the start: one strong decay would
    drown all later ones.
    """
    xp, place = operations.xp, np.arange(log_decay.shape[-1])
    is_after = place[:, None] > place
    up_to = place[:, None] >= place
    steps = xp.where(is_after, log_decay[..., None], 0.0)
    sums = operations.product(xp.asarray(up_to, log_decay.dtype), steps)
    return xp.where(up_to, xp.exp(sums), 0.0)


def inverse_of_unit_lower(operations: Operations, system: Array) -> Array:
    """The inverse of a lower triangular `[..., rows, rows]` whose diagonal is taken as 1.

    Blocks are inverted in pairs, from single rows up: the corner between two neighbours a and b
    becomes `-b corner a`. As stable as substitution, and all blocks of a size are one product.
    What stands on or above the diagonal is not read.

    Args:
        system: its number of rows is a power of two.
    """
    xp, product, rows = operations.xp, operations.product, system.shape[-1]
    size = 1
    inverse = xp.ones((*system.shape[:-2], rows, 1, 1), system.dtype)
    while size < rows:
        corner = _corners(xp, system, size)
        first, second = inverse[..., ::2, :, :], inverse[..., 1::2, :, :]
        corner = -product(second, product(corner, first))
        above = xp.concatenate([first, xp.zeros_like(first)], axis=-1)
        below = xp.concatenate([corner, second], axis=-1)
        inverse = xp.concatenate([above, below], axis=-2)
        size *= 2
    return inverse[..., 0, :, :]


def _corners(xp: Any, system: Array, size: int) -> Array:
    """The blocks `[..., pairs, size, size]` below the diagonal, within each pair of blocks."""
    pairs = system.shape[-1] // (2 * size)
    blocks = system.reshape(*system.shape[:-2], pairs, 2 * size, pairs, 2 * size)
    corners = blocks[..., size:, :, :size]
    return xp.moveaxis(xp.diagonal(corners, axis1=-4, axis2=-2), -1, -3)
