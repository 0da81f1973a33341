"""The sign vectors of rotated matrices: the same for every matrix of the same width.

They are those of lalamo 0.17.0: JAX's generator (threefry2x32, partitionable) from key 42, split
into one key for each side. Equal widths have equal signs, so that an engine may rotate an
activation once for several matrices. A shorter vector is the beginning of a longer one.
Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", for threefry.
"""

from typing import Literal

import numpy as np

Side = Literal["input", "output"]
SIDES: tuple[Side, ...] = ("input", "output")

_SEED = 42
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_WORD = 0xFFFFFFFF


def signs(side: Side, channels: int) -> np.ndarray:
    """int32 `[channels]` of 1 and -1, for one side of a matrix."""
    halves = _threefry((0, _SEED), np.array([SIDES.index(side)], np.uint32))
    key = (int(halves[0][0]), int(halves[1][0]))
    high, low = _threefry(key, np.arange(channels, dtype=np.uint32))
    # Bernoulli with one half: a uniform number is below it if its first bit is zero.
    return np.where((high ^ low) >> np.uint32(31) == 0, 1, -1).astype(np.int32)


def _threefry(key: tuple[int, int], counters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both words of 20 rounds of threefry2x32 for counters below 2 ** 32."""
    schedule = (*key, key[0] ^ key[1] ^ _PARITY)
    first = np.full_like(counters, schedule[0])
    second = counters + np.uint32(schedule[1])
    for stage in range(5):
        for distance in _ROTATIONS[stage % 2]:
            first = first + second
            second = second << np.uint32(distance) | second >> np.uint32(32 - distance)
            second = second ^ first
        first = first + np.uint32(schedule[(stage + 1) % 3])
        second = second + np.uint32(schedule[(stage + 2) % 3] + stage + 1 & _WORD)
    return first, second
