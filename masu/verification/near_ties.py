"""Tokens whose router can hardly decide: rounding may send them to another expert, and be right."""

import numpy as np

from masu.runtime.backend import Array
from masu.verification.by_rows import RowwiseBackend

NEAR = 1e-4
"""A router's last chosen and first refused expert are a near tie where they are no further apart,
in standard deviations of the token's scores. On equal input float32 moves scores by 1e-6 to 1e-5
of that."""

MOST = 0.1
"""The share of a block's tokens that may be left out as near ties, beside one token. With 128
experts about one token in 600 is one."""


class WatchingBackend(RowwiseBackend):
    """The reference's backend, which also notes at which tokens a choice was near.

    Attributes:
        near: `[tokens]` of the choices since `reset`, None where there were none.
    """

    def __init__(self) -> None:
        self.near: np.ndarray | None = None

    def reset(self) -> None:
        self.near = None

    def largest(self, values: Array, count: int) -> Array:
        places = super().largest(values, count)
        if count < values.shape[-1]:
            near = _near(np.asarray(values), count)
            self.near = near if self.near is None else self.near | near
        return places


def too_many(left_out: int, tokens: int) -> bool:
    return left_out > 1 + MOST * tokens


def _near(values: np.ndarray, count: int) -> np.ndarray:
    """`[tokens]`; what is minus infinity was ruled out before, and takes no part."""
    ranked = -np.sort(-values, axis=-1)
    last, first = ranked[..., count - 1], ranked[..., count]
    finite = np.isfinite(values)
    centre = np.mean(values, axis=-1, keepdims=True, where=finite)
    spread = np.sqrt(np.mean((values - centre) ** 2, axis=-1, where=finite))
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(first), last - first <= NEAR * spread, False)
