"""How far a decoded value may be from the one that was encoded, format by format.

Each bound follows from the format's definition and the values alone, not from what was stored.
"""

import json
from collections.abc import Callable

import ml_dtypes
import numpy as np
from format_cases import StoredMatrix
from independent_decoder import block_hadamard, lloyd_max_tables

from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.formats import HybridSpec, Planes, WeightFormat, parse_spec
from masu.specs.formats.incoherence import SIDES, signs
from masu.specs.tensors import Shape


def spec_of(fields: dict) -> WeightFormat:
    return parse_spec(json.dumps(fields), "spec")


def ramp(shape: Shape, size: int = 16) -> np.ndarray:
    """float32 in which every run of `size` columns has its own range, none of them around zero."""
    count = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    wave = (count * 37 % 101 - 50) / 50  # no two neighbours alike, no symmetry
    rows = np.arange(int(np.prod(shape[:-1]))).reshape(*shape[:-1], 1)
    runs = np.arange(shape[-1]) // size
    return (wave * (1 + rows % 5 + runs / 3) + rows % 3 - 0.7).astype(np.float32)


def encoded(
    spec: WeightFormat, values: np.ndarray, dtype: str = "F32", planes: Planes = "group_major"
) -> StoredMatrix:
    return StoredMatrix("encoded", spec, values.shape, spec.encode(values, dtype, planes), planes)


def is_within_bound(matrix: StoredMatrix, values: np.ndarray, dtype: str = "F32") -> bool:
    """Whether the independent decoder finds every group near enough to its values."""
    fields = json.loads(matrix.spec.to_json())
    unit = float(ml_dtypes.finfo(NUMPY_DTYPES[dtype]).eps)
    exact, error = values.astype(np.float64), matrix.reference - values
    if isinstance(matrix.spec, HybridSpec):
        if matrix.spec.adapter_spec is not None:  # see the tests of adapters
            fields = {"type": "HybridSpec"}
        else:
            fields = fields["quantization_spec"]
            exact, error = turned(matrix.spec, exact), turned(matrix.spec, error)
    return bool(BOUNDS[fields["type"]](exact, error, fields, unit))


def turned(spec: HybridSpec, matrix: np.ndarray) -> np.ndarray:
    """The rotation of a matrix, by products with whole matrices."""
    for side in SIDES:
        if (block := spec.block(side)) is not None:
            channels = matrix.shape[spec.axis(side)]
            rotation = np.diag(signs(side, channels)) @ block_hadamard(channels, block)
            matrix = matrix @ rotation if spec.axis(side) == -1 else rotation.T @ matrix
    return matrix


def grouped(matrix: np.ndarray, fields: dict) -> np.ndarray:
    return matrix.reshape(*matrix.shape[:-1], -1, fields["group_size"])


def full_precision(values: np.ndarray, error: np.ndarray, fields: dict, unit: float) -> bool:
    # float32's own rounding on top, for values that were rotated back and forth.
    return bool((np.abs(error) <= unit / 2 * np.abs(values) + noise(values)).all())


def integer(values: np.ndarray, error: np.ndarray, fields: dict, unit: float) -> bool:
    """Half a step; steps are stored up to one unit wider than needed."""
    groups = grouped(values, fields)
    lowest, highest = groups.min(-1).clip(max=0), groups.max(-1).clip(0)
    if fields["is_symmetric"]:
        half = 2 ** (fields["bits"] - 1)
        steps = np.maximum(highest / (half - 1), -lowest / half)
    else:
        steps = (highest - lowest) / (2 ** fields["bits"] - 1)
    return reaches(error, fields, steps * (1 + unit) / 2 + noise(values))


def mlx(values: np.ndarray, error: np.ndarray, fields: dict, unit: float) -> bool:
    """Half a step; the bias may be one unit lower than the smallest value."""
    groups = grouped(values, fields)
    lowest = groups.min(-1)
    span = groups.max(-1) - lowest + unit * np.abs(lowest)
    steps = span / (2 ** fields["bits"] - 1)
    return reaches(error, fields, steps * (1 + unit) / 2 + noise(values))


def microfloat(values: np.ndarray, error: np.ndarray, fields: dict, unit: float) -> bool:
    """Codes are two steps apart at most, of 6 that the largest value has.

    A power of two lets it have 3 of them at the least, and an E4M3 scale is off by a sixteenth.
    """
    steps = np.abs(grouped(values, fields)).max(-1) / 6
    widest = steps * (2 if fields["scale_mode"] == "mxfp4" else 17 / 16 * (1 + unit))
    return reaches_on_average(error, fields, widest)


def lloyd_max(values: np.ndarray, error: np.ndarray, fields: dict, unit: float) -> bool:
    """Half the widest gap of the table, or the gap between its last level and one."""
    table, _ = lloyd_max_tables(fields["bits"], fields["group_size"], fields["bias_bits"])
    gap = max(np.diff(table).max() / 2, 1 - table[-1], 1 + table[0])
    scales = np.abs(grouped(values, fields)).max(-1) * 17 / 16
    return reaches_on_average(error, fields, gap * scales + scales / 17)


def low_rank(values: np.ndarray, error: np.ndarray, fields: dict, unit: float) -> bool:
    """Eckart and Young: the smallest distance is that of the other singular values."""
    singular = np.linalg.svd(values, compute_uv=False)
    left = np.sqrt((singular[..., fields["rank"] :] ** 2).sum(-1))
    distance = np.sqrt((error**2).sum((-2, -1)))
    return bool((distance <= left * (1 + 1e-6) + 2 * unit * singular.sum(-1)).all())


def adapted(values: np.ndarray, error: np.ndarray, fields: dict, unit: float) -> bool:
    """Far below what any fault would do; the adapter's own test is the sharper one."""
    return bool(np.square(error).sum() < 0.02 * np.square(values).sum())


BOUNDS: dict[str, Callable[[np.ndarray, np.ndarray, dict, float], bool]] = {
    "FullPrecisionSpec": full_precision,
    "IntSpec": integer,
    "MLXSpec": mlx,
    "MicrofloatSpec": microfloat,
    "LloydMaxSpec": lloyd_max,
    "LowRankSpec": low_rank,
    "HybridSpec": adapted,
}


def noise(values: np.ndarray) -> float:
    """A few float32 roundings of the largest value."""
    return float(np.abs(values).max()) * 2.0**-20


def reaches(error: np.ndarray, fields: dict, bound: np.ndarray) -> bool:
    return bool((np.abs(grouped(error, fields)).max(-1) <= bound).all())


def reaches_on_average(error: np.ndarray, fields: dict, bound: np.ndarray) -> bool:
    """For scales that are chosen by the squared error of the group."""
    return bool((np.sqrt(np.square(grouped(error, fields)).mean(-1)) <= bound).all())
