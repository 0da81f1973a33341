"""Formats whose codes name the levels of one short ladder, scaled group by group."""

from typing import NamedTuple

import numpy as np

MAX_LEVELS = 16
"""Of the compiled encoders: a table of this length is a register or two."""


class Ladder(NamedTuple):
    """Ascending float32 levels; a number is on the level above each threshold that it exceeds.

    A mirrored one has eight levels, of magnitudes, the first of which is zero.
    """

    levels: np.ndarray
    thresholds: np.ndarray
    mirrored: bool = False


class Steps(NamedTuple):
    """Where values stand on a ladder, `[..., groups]` each, float32.

    A value is nearest to the level of `value / divisor + offset`, and there becomes
    `(level - offset) * scale * shared`. Divisors of zero count as infinite: a group of scale zero
    becomes zero.
    """

    divisors: np.ndarray
    offsets: np.ndarray
    scales: np.ndarray
    shared: np.ndarray

    def places(self, groups: np.ndarray) -> np.ndarray:
        """Where values `[..., groups, group_size]` are among the levels."""
        divisors = np.where(self.divisors == 0, np.float32(np.inf), self.divisors)
        return groups / divisors[..., None] + self.offsets[..., None]
