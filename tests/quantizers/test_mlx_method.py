"""Method `mlx` writes the very bits of mlx.core.quantize."""

import json
from pathlib import Path

import numpy as np
import pytest
from mlx_matrices import BITS, DTYPES, GROUP_SIZES, matrices

from masu.quantizers.methods.mlx import METHOD, encode_in_numpy
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.formats import IntSpec, MLXSpec, parse_spec

FIXTURES = Path(__file__).parents[1] / "fixtures"
CASES = [(dtype, size, bits) for dtype in DTYPES for size in GROUP_SIZES for bits in BITS]


def mlx_spec(bits: int, group_size: int) -> MLXSpec:
    fields = {"type": "MLXSpec", "bits": bits, "group_size": group_size, "layout": "output_input"}
    spec = parse_spec(json.dumps(fields), "spec")
    assert isinstance(spec, MLXSpec)
    return spec


def encoded(
    matrix: np.ndarray, dtype: str, group_size: int, bits: int, encoder: str = "method"
) -> list[np.ndarray]:
    """Codes, scales and biases as bytes, in rows."""
    spec = mlx_spec(bits, group_size)
    narrow = matrix.astype(NUMPY_DTYPES[dtype])
    encode = encode_in_numpy if encoder == "numpy" else METHOD.encode
    arrays = encode(spec, narrow, dtype, "row_major")
    return [as_bytes(arrays[suffix]) for suffix in ("weights", "scales", "biases")]


def as_bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(np.uint8)


@pytest.mark.parametrize("encoder", ["method", "numpy"])
@pytest.mark.parametrize(("dtype", "group_size", "bits"), CASES)
def test_bits_are_those_that_mlx_wrote(
    dtype: str, group_size: int, bits: int, encoder: str
) -> None:
    """By the method, which is compiled where there is a compiler, and by its numpy code."""
    with np.load(FIXTURES / "mlx_quantised.npz") as file:
        names = ("codes", "scales", "biases")
        wanted = [file[f"{dtype}-{group_size}-{bits}-{name}"] for name in names]
    given = matrices(dtype)
    assert len(given) == 40
    for index, matrix in enumerate(given):
        found = encoded(matrix, dtype, group_size, bits, encoder)
        for name, array, expected in zip(names, found, wanted, strict=True):
            message = f"matrix {index}: {name}"
            np.testing.assert_array_equal(array, as_bytes(expected[index]), message)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "group_size", "bits"), CASES)
def test_bits_are_those_of_the_installed_mlx(dtype: str, group_size: int, bits: int) -> None:
    pytest.importorskip("mlx.core")
    from make_mlx_quantised import quantised

    for matrix in matrices(dtype, rows=37, columns=384):
        found = encoded(matrix, dtype, group_size, bits)
        wanted = quantised(matrix, dtype, group_size, bits)
        for array, expected in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(array, as_bytes(expected))


def test_another_format_is_a_problem() -> None:
    fields = {"bits": 4, "group_size": 32, "is_symmetric": True, "layout": "output_input"}
    other = IntSpec.model_validate({"type": "IntSpec", **fields})
    assert METHOD.problem(other) == "method mlx writes the format MLXSpec only"
    assert METHOD.problem(mlx_spec(4, 64)) is None
