"""Every stored format in a product, in the lookup and in the readout, on every backend.

The expected matrix comes from the decoder of the tests, which shares no code with the formats.
"""

import json

import numpy as np
import pytest
from format_cases import SPECS, StoredMatrix, ramp, shape_for
from shared_backends import shared_backend

from masu.runtime.backend import Backend
from masu.runtime.backends import why_not
from masu.runtime.weights import Weight
from masu.specs.formats import parse_spec


def matrices() -> list[StoredMatrix]:
    specs = [parse_spec(json.dumps(fields), "spec") for fields in SPECS]
    return [ramp(spec, shape_for(spec), "group_major") for spec in specs]


MATRICES = matrices()


def held(backend: Backend, matrix: StoredMatrix, dtype: np.dtype) -> Weight:
    stored = Weight(matrix.spec, matrix.arrays, matrix.shape, matrix.planes)
    return backend.hold(stored, dtype)


def farthest(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference, as a share of the largest number."""
    return float(np.abs(np.asarray(found, np.float64) - wanted).max() / np.abs(wanted).max())


RUNS = [("numpy", "float64"), ("jax", "float32"), ("native", "float32"), ("mlx", "float32")]


@pytest.mark.parametrize(("name", "dtype"), RUNS)
@pytest.mark.parametrize("matrix", MATRICES, ids=repr)
def test_products_and_lookups(matrix: StoredMatrix, name: str, dtype: str) -> None:
    """Tables are looked up and, if tied, read out; the others are multiplied with and read out.

    A sum of up to 256 products in float32: some tens of roundings of 6e-8. A column or a row out
    of place is 1e-2 and more.
    """
    if problem := why_not(name):
        pytest.skip(problem)
    backend, tolerance = shared_backend(name), 1e-12 if dtype == "float64" else 5e-6
    weight = held(backend, matrix, np.dtype(dtype))
    rows, columns = matrix.shape
    x = np.random.default_rng(5).standard_normal((3, columns)).astype(dtype)
    given, wanted = backend.array(x), x.astype(np.float64) @ matrix.reference.T
    assert farthest(backend.to_numpy(backend.readout(given, weight)), wanted) < tolerance
    if matrix.spec.stored_layout == "output_input":
        assert farthest(backend.to_numpy(backend.linear(given, weight)), wanted) < tolerance
    else:
        ids = np.array([rows - 1, 0, 1, 0], np.int32)
        found = backend.to_numpy(backend.embed(weight, backend.array(ids), np.dtype(dtype)))
        assert farthest(found, matrix.reference[ids]) < tolerance


def test_every_format_and_layout_is_there() -> None:
    found = {(matrix.spec.type, matrix.spec.stored_layout) for matrix in MATRICES}
    assert {kind for kind, _ in found} == {fields["type"] for fields in SPECS}
    assert {kind for kind, layout in found if layout == "input_output"} >= {
        "FullPrecisionSpec", "IntSpec", "MLXSpec", "D4S4Spec", "HybridSpec"
    }  # fmt: skip
