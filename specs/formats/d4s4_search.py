"""The nearest of the 256 entries of a D4S4 codebook to each of many 4-vectors, exactly.

Squared distance is least where `v . c - |c|^2 / 2` is largest. Vectors and entries are whole
numbers, small enough for every product and sum of that score to be exact in float32: whatever
order a BLAS adds in, the scores are the same and a tie is a tie.
"""

from typing import Final

import numpy as np

VECTOR: Final = 4
"""Columns that one code stands for."""

EXACT: Final = 1 << 23
"""Up to here float32 holds every multiple of one half."""

FARTHEST: Final = float(1 << 40)
"""Up to here, with entries of 10 bits, float64 holds every score; farther vectors are cut."""

RUN: Final = 128
"""Vectors per matrix product: too few for a BLAS to wake threads of its own."""

RUNS: Final = 16
"""Products whose scores are looked through together: 2 MB of them."""


class Nearest:
    """A codebook made ready to be searched.

    Attributes:
        table: whole numbers `[256, 4]`, of at most 10 bits and a sign.
        fine: how many units of a vector make one unit of the table.
        limit: a coordinate up to this size is searched in float32, a larger one in float64.
    """

    def __init__(self, table: np.ndarray, fine: int) -> None:
        self.table = table.astype(np.float64)
        self.fine = fine
        penalty = fine * np.square(self.table).sum(axis=1) / 2
        self.weights = np.concatenate([self.table.T, -penalty[None]])
        self.single = np.ascontiguousarray(self.weights, np.float32)
        reach = max(np.abs(self.table).sum(axis=1).max(), 1)
        self.limit = float((EXACT - penalty.max()) // reach)

    def __call__(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The lowest index among the nearest entries, uint8, and its score, float64.

        `vectors` float32 `[4, ...]`, coordinates first, in `1 / fine` of the table's unit; they
        are rounded to whole numbers here. Both results are of shape `[...]`. The squared
        distance is `|v|^2 - 2 score / fine` in units of the table.
        """
        shape, count = vectors.shape[1:], int(np.prod(vectors.shape[1:]))
        points = np.zeros((VECTOR + 1, -(-count // RUN) * RUN), np.float32)
        points[VECTOR] = 1
        np.rint(vectors.reshape(VECTOR, count), out=points[:VECTOR, :count])
        far = self._far(points)
        codes, scores = self._search(points)
        if far.size:
            codes[far], scores[far] = self._search_far(points, far)
        return codes[:count].reshape(shape), scores[:count].reshape(shape)

    def _far(self, points: np.ndarray) -> np.ndarray:
        """Indices of the vectors that float32 cannot score exactly, which are set to zero there."""
        coordinates = points[:VECTOR]
        if -self.limit <= coordinates.min() and coordinates.max() <= self.limit:
            return np.empty(0, np.intp)
        return np.flatnonzero((np.abs(coordinates) > self.limit).any(axis=0))

    def _search(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        runs = points.reshape(VECTOR + 1, -1, RUN).transpose(1, 2, 0)
        codes = np.empty(points.shape[1], np.uint8)
        best = np.empty(points.shape[1], np.float64)
        room = np.empty((RUNS, RUN, len(self.table)), np.float32)
        for start in range(0, len(runs), RUNS):
            some = runs[start : start + RUNS]
            scores = np.matmul(some, self.single, out=room[: len(some)])
            scores = scores.reshape(-1, len(self.table))
            chosen = scores.argmax(axis=1)
            span = slice(start * RUN, start * RUN + len(chosen))
            codes[span] = chosen
            best[span] = scores.reshape(-1)[chosen + np.arange(0, scores.size, len(self.table))]
        return codes, best

    def _search_far(self, points: np.ndarray, far: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same for a few vectors in float64."""
        few = points[:, far].astype(np.float64)
        scores = np.clip(few, -FARTHEST, FARTHEST).T @ self.weights
        chosen = scores.argmax(axis=1)
        return chosen.astype(np.uint8), np.take_along_axis(scores, chosen[:, None], 1)[:, 0]
