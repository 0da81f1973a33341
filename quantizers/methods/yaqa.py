"""Error feedback from both sides of a matrix, in the metric of the model's own predictions: YAQA.

Tseng et al. 2025, "Model-Preserving Adaptive Rounding". To second order a change E of a matrix
moves the KL divergence of the predictions by `tr(O E I E^T)`, were the two moments of the
gradient independent: I those of the inputs, each counted by the square of its output's gradient,
O those of the gradients of the outputs. Each code makes up for the errors of the columns before it
in its row, and of the rows before it in its column.
"""

from typing import Any

import numpy as np

from masu.quantizers.methods.gptq import GPTQ, Sides, feedback_of
from masu.specs.formats.grouped import GroupedFormat

ROWS = 128
"""Rows that take the errors of all before them at once."""


class YAQA(GPTQ):
    """Codes for `[out, in]` matrices from the moments of both sides."""

    name = "yaqa"
    two_sided = True

    def rounded(
        self, spec: GroupedFormat, values: np.ndarray, parameters: Any, sides: Sides
    ) -> np.ndarray:
        inputs, outputs = sides
        if outputs is None:  # no gradient has reached it
            return super().rounded(spec, values, parameters, sides)
        rows, columns = (np.argsort(-np.diag(side), kind="stable") for side in (outputs, inputs))
        given = np.ascontiguousarray(values[np.ix_(rows, columns)])
        own = type(parameters)(*(np.ascontiguousarray(field[rows]) for field in parameters))
        across = np.triu(feedback_of(inputs[np.ix_(columns, columns)]), 1)
        down = np.triu(feedback_of(outputs[np.ix_(rows, rows)]), 1)
        wave = _Wave(spec, columns // spec.group_size, across)
        codes, made_up = np.empty(given.shape, np.uint8), np.empty_like(given)
        for start in range(0, len(rows), ROWS):
            span = slice(start, start + ROWS)
            above = down[:start, span].T @ made_up[:start]
            block = type(own)(*(field[span] for field in own))
            codes[span], made_up[span] = wave(given[span], above, block, down[span, span])
        found = np.empty_like(codes)
        found[np.ix_(rows, columns)] = codes
        return found


class _Wave:
    """Rounds a block of rows along its diagonals: no code of one depends on another of it."""

    def __init__(self, spec: GroupedFormat, groups: np.ndarray, across: np.ndarray) -> None:
        """`groups`: the group of each column; `across`: what columns take of those before."""
        self._spec, self._groups, self._across = spec, groups, across

    def __call__(
        self, given: np.ndarray, above: np.ndarray, parameters: Any, down: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The codes, and what the rows below take of: errors with all that was added for columns.

        Args:
            given, above: `[rows, columns]`; what the rows above add to the block.
            down: `[rows, rows]`, what rows take of those before.
        """
        count, width = given.shape
        codes, made_up = np.empty(given.shape, np.uint8), np.empty_like(given)
        left, top = np.zeros_like(given), np.ascontiguousarray(above.T)
        for step in range(width + count - 1):
            first, last = max(0, step - width + 1), min(count - 1, step)
            rows = np.arange(first, last + 1)
            columns = step - rows
            before = left[rows, columns]
            wanted = given[rows, columns] + before + top[columns, rows]
            own = type(parameters)(*(field[rows, self._groups[columns]] for field in parameters))
            code = self._spec.codes(wanted[:, None], own)
            error = given[rows, columns] - self._spec.values(code, own)[:, 0]
            codes[rows, columns], made_up[rows, columns] = code[:, 0], error + before
            span = slice(step - last, step - first + 1)  # the columns, the last of them first
            left[first : last + 1] += error[:, None] * self._across[span][::-1]
            top[span] += ((error + before)[:, None] * down[first : last + 1])[::-1]
        return codes, made_up


METHOD = YAQA()
