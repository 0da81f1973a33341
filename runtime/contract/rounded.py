"""What rounding rows of activations to int8 means, in plain numpy: the reference.

Thirty-two columns of a row share a scale, their largest magnitude over 127; a row that meets codes
of 4 or 8 bits is whole numbers times scales, each of these products rounded to float32.
"""

import numpy as np

from masu.runtime.backend import Array
from masu.runtime.backends.numpy import NumpyBackend
from masu.runtime.weights import Weight
from masu.specs.formats import WeightFormat
from masu.specs.formats.hybrid import HybridSpec
from masu.specs.formats.integer import IntSpec
from masu.specs.formats.mlx import MLXSpec

COLUMNS = 32
"""Those that share a scale."""


def meets_rounded(weight_format: WeightFormat, columns: int) -> bool:
    """Whether rows are rounded for this matrix: its codes are whole numbers that kernels read."""
    if isinstance(weight_format, HybridSpec) and weight_format.is_core_alone:
        weight_format = weight_format.quantization_spec
    if not isinstance(weight_format, IntSpec | MLXSpec) or weight_format.bits not in (4, 8):
        return False
    size = weight_format.group_size
    return size >= 16 and size & (size - 1) == 0 and columns % size == 0


def rounded(x: np.ndarray) -> np.ndarray:
    """Wide rows `[rows, columns]` as what they are rounded to; one that is not finite stays."""
    single = x.astype(np.float32)
    finite = np.isfinite(single).all(axis=-1, keepdims=True)
    rows, columns = x.shape
    padded = np.pad(single, ((0, 0), (0, -columns % COLUMNS)))
    runs = padded.reshape(rows, padded.shape[1] // COLUMNS, COLUMNS)
    scales = np.abs(runs).max(axis=-1, keepdims=True, initial=0) / np.float32(127)
    counts = scales >= np.finfo(np.float32).tiny
    with np.errstate(all="ignore"):
        whole = np.where(counts, np.rint(runs / scales), np.float32(0))
        meant = whole * np.where(counts, scales, np.float32(0))
    return np.where(finite, meant.reshape(padded.shape)[:, :columns], x).astype(x.dtype)


class RoundedReference(NumpyBackend):
    """Matrices stay as they are stored, so that products know what they meet."""

    def hold(self, weight: Weight, dtype: np.dtype) -> Weight:
        return weight

    def readout(self, x: Array, weight: Weight) -> Array:
        if meets_rounded(weight.format, weight.shape[-1]):
            x = rounded(self.wide(x))
        return super().readout(x, weight)
