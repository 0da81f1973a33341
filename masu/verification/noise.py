"""Pseudo-random numbers that are the same everywhere and for ever: SplitMix64 on a counter."""

import numpy as np

_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def noise(start: int, stop: int, seed: int) -> np.ndarray:
    """Numbers `start..stop` of the sequence `seed`: float64, evenly spread, of variance 1.

    From Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014). numpy
    promises its own generators' streams for one version only.
    """
    return (bits(start, stop, seed) / np.float64(2**63) - 1) * np.sqrt(3.0)


def bits(start: int, stop: int, seed: int) -> np.ndarray:
    """The same numbers as uint64."""
    with np.errstate(over="ignore"):
        counter = np.arange(start + 1, stop + 1, dtype=np.uint64)
        mixed = (counter + np.uint64(seed) * np.uint64(1 << 40)) * np.uint64(_STEP)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(_FIRST)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_SECOND)
    return mixed ^ (mixed >> np.uint64(31))
