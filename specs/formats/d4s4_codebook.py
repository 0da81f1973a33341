"""The codebook of a D4S4 table: 256 vectors, 16 ladder steps and the signs before its rotation.

The vectors and the ladder are fitted to rows of the table by alternation, as in Lloyd's algorithm
(Linde, Buzo and Gray 1980): choose steps and codes, then give each entry the weighted mean of the
vectors that chose it and each step the least squares of the columns that chose it. Every row
counts alike, whatever its norm. Entry 0 stays zero: columns far quieter than the rest of their row
then become zeros, not noise of the loud columns' size.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from masu.specs.formats.d4s4_ladder import LADDER, STEP, Choice, Scales, choose, energies
from masu.specs.formats.d4s4_search import VECTOR, Nearest
from masu.specs.formats.hadamard import hadamard

HADAMARD_BLOCK: Final = 32

ENTRIES: Final = 256

SAMPLE: Final = 1 << 21
"""Values that a codebook is fitted to, at most: 0.5 million vectors."""

ROUNDS: Final = 30

BLOCK: Final = 1 << 17
"""Values that are worked on together: enough to keep a core at work between two Python steps."""

PEAK: Final = 127
"""The largest number of a table."""

FINE: Final = 64
"""Parts of a table's unit that vectors are rounded to before the search."""

FIT_FINE: Final = 8
"""Parts of a unit that the table itself is rounded to while it is fitted."""

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""`map`, or that of an executor."""


@dataclass(frozen=True)
class Codebook:
    """What all rows of a table share.

    Attributes:
        table: int8 `[256, 4]`.
        ladder: float16 `[16]`, ascending.
        factors: int32 `[width]`, 1 or -1.
        loudness: root mean square, in units of the table, of the columns that it serves best.
    """

    table: np.ndarray
    ladder: np.ndarray
    factors: np.ndarray
    loudness: float

    @property
    def scales(self) -> Scales:
        nearest = Nearest(self.table.astype(np.float64), FINE)
        return Scales(nearest, self.ladder.astype(np.float64), self.loudness)


def sign_factors(width: int) -> np.ndarray:
    """One fixed sign per column, int32: the bits of SHA-256 of `d4s4:<width>:<run of 256>`."""
    runs = (f"d4s4:{width}:{run}".encode() for run in range(-(-width // 256)))
    stream = b"".join(hashlib.sha256(run).digest() for run in runs)
    bits = np.unpackbits(np.frombuffer(stream, np.uint8), count=width, bitorder="little")
    return 1 - 2 * bits.astype(np.int32)


def rotate(values: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Rows `[rows, width]` as the format stores them: signs first, then Hadamard; float32."""
    return hadamard(values * factors.astype(np.float32), HADAMARD_BLOCK)


def sample_rows(rows: int, width: int) -> np.ndarray:
    """The rows that a codebook is fitted to, evenly spaced: all, or 2 million values."""
    count = min(rows, max(SAMPLE // width, 1))
    return np.arange(count) * rows // count


def fit(rows: np.ndarray, run: Map = map) -> Codebook:
    """The codebook for a sample of rows, float32 `[rows, width]`."""
    factors = sign_factors(rows.shape[1])
    rotated = rotate(rows, factors)
    loud = np.sqrt(energies(rotated) / STEP)
    norms = np.sqrt(np.square(loud).mean(axis=1))
    # Rows of norm one: what is a step's least squares over rows is then an even mean.
    rotated = (rotated[norms > 0] / norms[norms > 0, None]).astype(np.float32)
    ratios = (loud[norms > 0] / norms[norms > 0, None]).reshape(-1)
    if not ratios.size:
        ladder = np.ones(LADDER, np.float16)
        return Codebook(np.zeros((ENTRIES, VECTOR), np.int8), ladder, factors, 1)
    ladder = np.quantile(ratios[ratios > 0], (np.arange(LADDER) + 0.5) / LADDER)
    table = _first_table(rotated, ratios)
    for _ in range(ROUNDS):
        table, ladder = _improved(rotated, table, ladder, run)
    unit = PEAK / np.abs(table).max()
    whole = np.rint(table * unit).astype(np.int8)
    return Codebook(whole, (ladder / unit).astype(np.float16), factors, float(unit))


def _first_table(rotated: np.ndarray, ratios: np.ndarray) -> np.ndarray:
    """Zero, and 255 vectors of the rows, evenly spaced, at their own loudness."""
    groups = rotated.reshape(-1, STEP)[ratios > 0] / ratios[ratios > 0, None]
    vectors = groups.reshape(-1, VECTOR)
    table = vectors[np.arange(ENTRIES) * len(vectors) // ENTRIES].astype(np.float64)
    table[0] = 0
    return table


def _improved(
    rotated: np.ndarray, table: np.ndarray, ladder: np.ndarray, run: Map
) -> tuple[np.ndarray, np.ndarray]:
    """Table and ladder after one more round; in units of the columns' root mean square."""
    unit = FIT_FINE * PEAK / np.abs(table).max()
    whole = np.rint(table * unit)
    scales = Scales(Nearest(whole, 1), ladder / unit, float(unit))
    size = max(BLOCK // rotated.shape[1], 1)
    blocks = [rotated[start : start + size] for start in range(0, len(rotated), size)]
    sums = list(run(lambda rows: _sums(rows, scales, whole / unit, ladder), blocks))
    weights, totals, above, below = (np.sum(part, axis=0) for part in zip(*sums, strict=True))
    used = weights > 0
    table = np.where(used[:, None], totals / np.where(used, weights, 1)[:, None], table)
    table[0] = 0
    ladder = np.where(below > 0, above / np.where(below > 0, below, 1), ladder)
    return table, np.sort(ladder)


def _sums(
    rows: np.ndarray, scales: Scales, table: np.ndarray, ladder: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of one block: each entry's weight and weighted vectors, each step's least squares."""
    choice: Choice = choose(rows, np.ones(len(rows)), scales)
    codes, steps = choice.codes.reshape(-1), choice.steps.reshape(-1)
    step = np.repeat(ladder[steps], STEP // VECTOR)
    vectors = rows.reshape(-1, VECTOR).astype(np.float64)
    weights = np.bincount(codes, step * step, ENTRIES)
    totals = [np.bincount(codes, step * vectors[:, i], ENTRIES) for i in range(VECTOR)]
    entries = table[codes]
    above = (vectors * entries).reshape(len(steps), -1).sum(axis=1)
    below = np.square(entries).reshape(len(steps), -1).sum(axis=1)
    return (
        weights,
        np.stack(totals, axis=1),
        np.bincount(steps, above, LADDER),
        np.bincount(steps, below, LADDER),
    )
