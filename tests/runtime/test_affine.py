"""Stored codes in MLX's own layout say what the format says, and nothing is rounded on the way."""

from typing import Any

import numpy as np
import pytest
from format_cases import StoredMatrix, ramp

from masu.runtime.affine import affine
from masu.runtime.weights import Weight
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.formats import WEIGHT_FORMAT, Planes, WeightFormat

FLOAT32, BFLOAT16 = np.dtype(np.float32), NUMPY_DTYPES["BF16"]


def spec(**fields: Any) -> WeightFormat:
    fields = {"type": "IntSpec", "group_size": 32, "layout": "output_input", **fields}
    return WEIGHT_FORMAT.validate_python(fields)


def weight_of(matrix: StoredMatrix) -> Weight:
    return Weight(matrix.spec, matrix.arrays, matrix.shape, matrix.planes)


INTEGERS = [
    spec(bits=bits, is_symmetric=symmetric) for bits in (4, 8) for symmetric in (True, False)
]
AFFINE = [*INTEGERS, *(spec(type="MLXSpec", bits=bits) for bits in (4, 8))]


@pytest.mark.parametrize("planes", ["group_major", "row_major"])
@pytest.mark.parametrize("layout", ["output_input", "input_output"])
@pytest.mark.parametrize("form", AFFINE, ids=lambda form: f"{form.type}-{form.bits}")
def test_code_times_scale_plus_bias(form: Any, layout: str, planes: Planes) -> None:
    """MLX's words hold their codes from the lowest bits up; experts stand in front."""
    form = form.model_copy(update={"layout": layout})
    matrix = ramp(form, (2, 5, 64), planes)
    found = affine(weight_of(matrix), (FLOAT32,))
    assert found is not None
    shifts = np.arange(0, 32, form.bits, dtype=np.uint32)
    codes = (found.words[..., None] >> shifts & (2**form.bits - 1)).reshape(2, 5, 2, 32)
    values = codes * found.scales[..., None].astype(np.float64) + found.biases[..., None]
    assert np.array_equal(values.reshape(matrix.shape), matrix.decoded())


@pytest.mark.parametrize(
    "form",
    [
        spec(bits=4, is_symmetric=True, group_size=16),
        spec(type="MLXSpec", bits=1),
        WEIGHT_FORMAT.validate_python({"type": "FullPrecisionSpec", "layout": "output_input"}),
    ],
    ids=repr,
)
def test_what_mlx_has_no_product_for(form: WeightFormat) -> None:
    assert affine(weight_of(ramp(form, (5, 64), "group_major")), (FLOAT32,)) is None


def test_planes_take_the_first_type_that_holds_them() -> None:
    """A scale of 8 significant bits times a zero point of 4 has up to 12: too many for bfloat16."""
    form = spec(bits=4, is_symmetric=False)
    matrix = ramp(form, (4, 64), "row_major")
    scale, zero_points = np.float32(1 + 2**-7), {1: BFLOAT16, 7: FLOAT32}
    for zero_point, wanted in zero_points.items():
        arrays = {
            **matrix.arrays,
            "scales": np.full((4, 2), scale).astype(BFLOAT16),
            "zero_points": np.full((4, 1), zero_point * 17, np.uint8),
        }
        found = affine(Weight(form, arrays, (4, 64), "row_major"), (BFLOAT16, FLOAT32))
        assert found is not None
        assert (found.scales.dtype, found.biases.dtype) == (wanted, wanted)
        assert np.array_equal(found.biases.astype(np.float64), np.full((4, 2), -zero_point * scale))


def test_a_bias_that_no_type_holds_is_not_rounded() -> None:
    form = spec(bits=4, is_symmetric=False)
    matrix = ramp(form, (4, 64), "row_major")
    arrays = {**matrix.arrays, "scales": np.full((4, 2), np.float32(1 + 2**-23))}
    arrays["zero_points"] = np.full((4, 1), 0x77, np.uint8)
    assert affine(Weight(form, arrays, (4, 64), "row_major"), (FLOAT32,)) is None
