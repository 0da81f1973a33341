"""Error feedback in the metric of the inputs: GPTQ, which is LDLQ computed column by column.

Frantar et al. 2022, "GPTQ", and Chee et al. 2023, "QuIP", which shows that both are one. The
rounding error of a column is made up for by the columns that are still to be rounded, as far as
the inputs allow. Columns of large inputs go first; the groups' parameters are chosen before, so
that the order leaves no trace in what is stored.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from masu.quantizers.method import CalibratedMethod
from masu.specs.formats.base import Format, Planes
from masu.specs.formats.grouped import GroupedFormat
from masu.specs.formats.hadamard import hadamard
from masu.specs.formats.hybrid import HybridSpec, under
from masu.specs.formats.incoherence import Side, signs

DAMPING = 0.1
"""Added to the diagonal of the moments, as a part of its mean: few inputs do not span all.

Ten times what is usual for 128 texts of 2,048 tokens: with the few thousand tokens of `calibration`
less of it fits their noise, and errors on other text are larger (by a tenth in SmolLM2-135M)."""

SMALLEST_POWER = 1e-12
"""Of inputs that no text has used."""

BLOCK = 32
"""Columns that take the errors of all before them at once."""

Sides: TypeAlias = tuple[np.ndarray, np.ndarray | None]
"""Second moments of the inputs, and of the outputs' gradients."""

SHRINKAGES = tuple(1 - step / 40 for step in range(13))
"""Fractions of a group's range that are tried, 1 to 0.7."""


class GPTQ(CalibratedMethod):
    """Codes for `[out, in]` matrices from the second moments of their inputs."""

    name = "gptq"

    def problem(self, weight_format: Format) -> str | None:
        return self.needs_groups(weight_format)

    def encode_calibrated(
        self,
        weight_format: Format,
        values: np.ndarray,
        moments: np.ndarray,
        dtype: str,
        planes: Planes,
        outputs: np.ndarray | None = None,
    ) -> Mapping[str, np.ndarray]:
        if not isinstance(weight_format, HybridSpec):
            return self._encode(weight_format, values, (moments, outputs), dtype, planes)
        rotated = weight_format.rotated(values)
        turned = _turned(weight_format, moments, "input")
        outputs = None if outputs is None else _turned(weight_format, outputs, "output")
        spec = weight_format.quantization_spec
        core = self._encode(spec, rotated, (turned, outputs), dtype, planes)
        return weight_format.completed(under("quantized", core), rotated, dtype, planes)

    def _encode(
        self, weight_format: Format, values: np.ndarray, sides: Sides, dtype: str, planes: Planes
    ) -> dict[str, np.ndarray]:
        assert isinstance(weight_format, GroupedFormat)  # `problem` has refused everything else
        groups = weight_format.grouped(values)
        parameters = _weighted_fit(weight_format, groups, np.diag(sides[0]), dtype, values)
        codes = self.rounded(weight_format, values.astype(np.float32), parameters, sides)
        shape = values.shape
        return weight_format.store(codes.reshape(groups.shape), parameters, shape, dtype, planes)

    def rounded(
        self, spec: GroupedFormat, values: np.ndarray, parameters: Any, sides: Sides
    ) -> np.ndarray:
        """uint8 codes `[out, in]` of a matrix, from the moments of its inputs and outputs."""
        return _rounded(spec, values, parameters, sides[0])


def _turned(weight_format: HybridSpec, moments: np.ndarray, side: Side) -> np.ndarray:
    """The moments of one side as the core of a rotated matrix sees it."""
    moments, block = moments.astype(np.float64), weight_format.block(side)
    if block is None:
        return moments
    flips = signs(side, len(moments)).astype(moments.dtype)
    return hadamard(hadamard(moments * flips * flips[:, None], block, -1), block, -2)


def _weighted_fit(
    spec: GroupedFormat, groups: np.ndarray, power: np.ndarray, dtype: str, values: np.ndarray
) -> Any:
    """Group by group the range of the smallest squared error, inputs counted by their power."""
    weights = np.sqrt(power / max(float(power.mean()), 1e-30) + 1e-6).astype(np.float32)
    weights = weights.reshape(-1, spec.group_size)
    whole = spec.whole(values, dtype)
    best, least = None, None
    for part in SHRINKAGES:
        found = spec.fit(groups * np.float32(part), dtype, whole)
        error = (spec.values(spec.codes(groups, found), found) - groups) * weights
        total = np.square(error).sum(-1)
        if best is None or least is None:
            best, least = found, total
            continue
        better = total < least
        least = np.where(better, total, least)
        best = type(best)(*(np.where(better, n, o) for n, o in zip(found, best, strict=True)))
    return best


def _rounded(
    spec: GroupedFormat, values: np.ndarray, parameters: Any, moments: np.ndarray
) -> np.ndarray:
    """uint8 codes `[out, in]`, column after column.

    Columns are turned into rows, so that each is contiguous.
    """
    order = np.argsort(-np.diag(moments), kind="stable")
    feedback = feedback_of(moments[np.ix_(order, order)])
    given, groups = np.ascontiguousarray(values.T[order]), _by_group(parameters)
    codes, errors = np.empty(given.shape, np.uint8), np.empty_like(given)
    for start, stop in _spans(len(order)):
        wanted = given[start:stop] + feedback[:start, start:stop].T @ errors[:start]
        for column in range(start, stop):
            own = groups[order[column] // spec.group_size]
            code = spec.codes(wanted[column - start, :, None], own)
            codes[column] = code[:, 0]
            errors[column] = given[column] - spec.values(code, own)[:, 0]
            # Not by BLAS, which would wake its threads for every column.
            wanted[column + 1 - start :] += (
                feedback[column, column + 1 : stop, None] * errors[column]
            )
    return np.ascontiguousarray(codes[np.argsort(order)].T)


def _spans(columns: int) -> Iterator[tuple[int, int]]:
    for start in range(0, columns, BLOCK):
        yield start, min(start + BLOCK, columns)


def _by_group(parameters: Any) -> list[Any]:
    """The parameters `[out]` of each group of every row."""
    turned = (np.ascontiguousarray(field.T) for field in parameters)
    return [type(parameters)(*own) for own in zip(*turned, strict=True)]


def feedback_of(moments: np.ndarray) -> np.ndarray:
    """What each column takes of the errors of those before it, float32 `[in, in]`.

    The damped moments are `(U + I) D (U + I)^T` with U strictly upper triangular; column k is
    rounded after `U[:k, k]` times the errors before it was added (QuIP, section 3).
    """
    exact = moments.astype(np.float64)
    damping = DAMPING * max(float(np.diag(exact).mean()), SMALLEST_POWER)
    exact[np.diag_indices_from(exact)] += damping
    # The factor is V V^T with V upper triangular: a Cholesky factor from the last column on.
    factor = np.linalg.cholesky(exact[::-1, ::-1])[::-1, ::-1]
    return (factor / np.diag(factor)).astype(np.float32)


METHOD = GPTQ()
