"""A stack of MLPs of one shape, of which each row runs the few that it chose.

One row runs its own, and reads no others' weights. Several rows run every expert one after the
other, and keep what they chose: each weight is read once, and no shape depends on the choice.
"""

from collections.abc import Callable
from typing import Any, Protocol

from masu.runtime.weights import Weight
from masu.specs.blocks.dense_mlp import DenseMLPConfig
from masu.specs.blocks.plain_mlp import PlainMLPConfig

Array = Any


class Operations(Protocol):
    """What is needed of a backend."""

    @property
    def xp(self) -> Any: ...

    @property
    def gated_mlp(self) -> Callable[..., Array]: ...

    @property
    def ungated_mlp(self) -> Callable[..., Array]: ...

    def wide(self, x: Array) -> Array: ...

    def total(self, term: Callable[[Array], Array], count: int, start: Array) -> Array: ...


def run(
    operations: Operations,
    x: Array,
    up: Weight,
    up_biases: Array | None,
    down: Weight,
    down_biases: Array | None,
    config: PlainMLPConfig,
    chosen: Array,
    weights: Array,
) -> Array:
    """`[tokens, width]` -> the same; see `Backend.experts`."""
    xp = operations.xp
    if x.shape[0] == 1:
        numbers, shares = chosen[0], weights.T
    else:
        numbers = xp.arange(up.shape[0], dtype=chosen.dtype)
        shares = _by_expert(xp, numbers, chosen, weights)

    def weighted(place: Array) -> Array:
        number, share = numbers[place], shares[place][:, None]
        into = up.at(number), None if up_biases is None else up_biases[number]
        back = down.at(number), None if down_biases is None else down_biases[number]
        out = _one(operations, x, *into, *back, config)
        # What a row did not choose may be anything, infinite included.
        return share * xp.where(share != 0, operations.wide(out), 0.0)

    nothing = xp.zeros(x.shape, weights.dtype)
    return operations.total(weighted, len(numbers), nothing).astype(x.dtype)


def _one(
    operations: Operations,
    x: Array,
    up: Weight,
    up_biases: Array | None,
    down: Weight,
    down_biases: Array | None,
    config: PlainMLPConfig,
) -> Array:
    projections = up, up_biases, down, down_biases
    if isinstance(config, DenseMLPConfig):
        clips = config.up_clipping, config.gate_clipping
        return operations.gated_mlp(x, *projections, config.activation, *clips)
    return operations.ungated_mlp(x, *projections, config.activation)


def _by_expert(xp: Any, numbers: Array, chosen: Array, weights: Array) -> Array:
    """The weights as `[experts, tokens]`, 0 where a row did not choose the expert."""
    is_chosen = chosen[:, :, None] == numbers
    return xp.sum(xp.where(is_chosen, weights[:, :, None], 0.0), axis=1).T
