"""The scales of a D4S4 table: one per row, and for each 64 columns the best step of the ladder.

A step is chosen by the squared error that it really leaves, among the steps around the one that
fits the loudness of the columns.
"""

from dataclasses import dataclass
from typing import Final

import ml_dtypes
import numpy as np

from masu.specs.formats.d4s4_search import VECTOR, Nearest

STEP: Final = 64
"""Columns that share one step of the ladder."""

LADDER: Final = 16

WINDOW: Final = 5
"""Steps that are tried. All 16 would leave 1 % less error and take three times as long."""

LARGEST: Final = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Scales:
    """A codebook ready for use.

    Attributes:
        nearest: the search in the table.
        ladder: float64 `[16]`, ascending; a row's scale times a step is one unit of the table.
        loudness: root mean square, in units of the table, of the columns that it serves best.
    """

    nearest: Nearest
    ladder: np.ndarray
    loudness: float


@dataclass(frozen=True)
class Choice:
    """What rows became.

    Attributes:
        steps: uint8 `[rows, width / 64]`, places in the ladder.
        codes: uint8 `[rows, width / 4]`.
        saved: float64 `[rows, width / 64]`, energy of the columns less their squared error.
    """

    steps: np.ndarray
    codes: np.ndarray
    saved: np.ndarray


def energies(rotated: np.ndarray) -> np.ndarray:
    """Sum of squares of every 64 columns of `[rows, width]`, float64."""
    groups = rotated.reshape(len(rotated), -1, STEP)
    return np.square(groups, dtype=np.float64).sum(axis=-1)


def choose(rotated: np.ndarray, row_scales: np.ndarray, scales: Scales) -> Choice:
    """Steps and codes of float32 `[rows, width]` under float64 row scales `[rows]`.

    Of steps that leave the same error the lowest is taken; so is it for codes.
    """
    rows, width = rotated.shape
    # Coordinates first, groups last: every operation then runs along contiguous memory.
    lanes = np.ascontiguousarray(rotated.reshape(-1, STEP // VECTOR, VECTOR).transpose(2, 1, 0))
    loud = np.sqrt(energies(rotated) / STEP)
    first = _window(_ratio(loud, row_scales[:, None]) / scales.loudness, scales.ladder)
    steps, saved = np.zeros(first.size, np.uint8), np.full(first.size, -np.inf)
    codes = np.zeros(lanes.shape[1:], np.uint8)
    for place in range(WINDOW):
        candidate = (first + place).reshape(-1)
        unit = np.repeat(row_scales, width // STEP) * scales.ladder[candidate]
        found, score = scales.nearest(lanes * _inverse(unit, scales.nearest.fine))
        gain = np.square(unit) * score.sum(axis=0) * (2 / scales.nearest.fine)
        better = gain > saved
        steps, saved = np.where(better, candidate, steps), np.where(better, gain, saved)
        codes = np.where(better, found, codes)
    return Choice(
        steps.astype(np.uint8).reshape(first.shape),
        np.ascontiguousarray(codes.T).reshape(rows, -1),
        saved.reshape(first.shape),
    )


def scale_rows(rotated: np.ndarray, scales: Scales, dtype: np.dtype) -> tuple[np.ndarray, Choice]:
    """Row scales `[rows]` of `dtype`, and the choice of steps and codes under those very values.

    A row's scale is its root mean square. A row with columns too loud for the top of the ladder
    is also tried with the scale that would just reach them; what leaves less error is kept.
    """
    energy = energies(rotated)
    even = _stored(np.sqrt(energy.mean(axis=1) / STEP), dtype)
    choice = choose(rotated, even.astype(np.float64), scales)
    reach = np.sqrt(energy.max(axis=1) / STEP) / (scales.ladder[-1] * scales.loudness)
    loud = np.flatnonzero(reach > even.astype(np.float64))
    if not loud.size:
        return even, choice
    raised = _stored(reach[loud], dtype)
    other = choose(rotated[loud], raised.astype(np.float64), scales)
    better = other.saved.sum(axis=1) > choice.saved[loud].sum(axis=1)
    rows = loud[better]
    even[rows] = raised[better]
    choice.steps[rows], choice.codes[rows] = other.steps[better], other.codes[better]
    choice.saved[rows] = other.saved[better]
    return even, choice


def _window(loudness: np.ndarray, ladder: np.ndarray) -> np.ndarray:
    """The first of the steps to try: the nearest by ratio in their midst, as far as may be."""
    middles = np.sqrt(ladder[1:] * ladder[:-1])
    nearest = np.searchsorted(middles, loudness)
    return np.clip(nearest - WINDOW // 2, 0, len(ladder) - WINDOW)


def _ratio(values: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The quotient, 0 where the scale is 0."""
    return np.divide(values, scale, out=np.zeros_like(values), where=scale > 0)


def _inverse(unit: np.ndarray, fine: int) -> np.ndarray:
    """What turns values into `fine` parts of a unit, float32; 0 for a row without a scale."""
    with np.errstate(divide="ignore"):
        return np.where(unit > 0, np.minimum(fine / unit, LARGEST), 0).astype(np.float32)


def _stored(scales: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Scales rounded to the type that holds them, the largest where they exceed it."""
    return np.minimum(scales, float(ml_dtypes.finfo(dtype).max)).astype(dtype)
