"""The codes, scales and biases that `mlx.core.quantize` (affine mode) computes, bit for bit.

MLX lays the grid of a group so that the end further from zero and zero itself both have codes. It
chooses codes against scales before these are rounded to their dtype, unlike `rtn`. The steps below
are those that MLX 0.32 was seen to make on a CPU, in float32.
"""

from collections.abc import Mapping

import numpy as np

from masu.quantizers.method import Method
from masu.specs.formats.base import Format, Planes
from masu.specs.formats.grouped import extremes
from masu.specs.formats.mlx import MLXParameters, MLXSpec
from masu.specs.formats.native.encoders import encode_mlx

SMALLEST_SCALE = np.float32(1e-7)


def grid(groups: np.ndarray, bits: int) -> MLXParameters:
    """Scales and biases of float32 groups `[..., group_size]`, in float32, not yet rounded.

    The scale is negative where the largest value is as far from zero as the smallest, or further:
    codes then count downwards from it.
    """
    lowest, highest = extremes(groups)
    counts_up = np.abs(lowest) > np.abs(highest)
    with np.errstate(over="ignore"):  # a span beyond float32 is infinite in MLX as well
        steps = np.maximum((highest - lowest) / np.float32(2**bits - 1), SMALLEST_SCALE)
    scales = np.where(counts_up, steps, -steps)
    edges = np.where(counts_up, lowest, highest)
    code_of_zero = np.rint(edges / scales)
    has_zero = code_of_zero != 0
    stretched = np.divide(edges, code_of_zero, out=scales, where=has_zero)
    return MLXParameters(stretched, np.where(has_zero, edges, np.float32(0)))


class AsMLX(Method):
    """For the format that it is the method of, MLX's own."""

    name = "mlx"
    takes_narrow = True

    def problem(self, weight_format: Format) -> str | None:
        if isinstance(self.core(weight_format), MLXSpec):
            return None
        return "method mlx writes the format MLXSpec only"

    def encode_plain(
        self, weight_format: Format, values: np.ndarray, dtype: str, planes: Planes
    ) -> Mapping[str, np.ndarray]:
        assert isinstance(weight_format, MLXSpec)  # `problem` has refused everything else
        found = encode_mlx(values, weight_format.bits, weight_format.group_size)
        if found is None:
            return encode_in_numpy(weight_format, values, dtype, planes)
        parameters = MLXParameters(found.scales, found.biases)
        return weight_format.store_packed(found.packed, parameters, values.shape, dtype, planes)


def encode_in_numpy(
    spec: MLXSpec, values: np.ndarray, dtype: str, planes: Planes
) -> dict[str, np.ndarray]:
    """What is stored of finite values: the steps that the compiled encoder takes at once."""

    def fit(groups: np.ndarray, dtype: str, whole: np.ndarray | None) -> MLXParameters:
        return grid(groups, spec.bits)

    # A huge group of one value has the scale 0 and the codes 0, as in MLX: its bias says it all.
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return spec.encode_with(fit, values, dtype, planes)


METHOD = AsMLX()
