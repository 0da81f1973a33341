"""Every method on every format that it can write, and what each is for."""

import json

import numpy as np
import pytest
from format_cases import agrees
from independent_decoder import decode as independent

from masu.quantizers.encoding import quantised
from masu.quantizers.method import CalibratedMethod
from masu.quantizers.methods import find_method, method_names
from masu.quantizers.methods.gptq import METHOD as GPTQ
from masu.specs.errors import TensorMismatch
from masu.specs.formats import WeightFormat
from masu.specs.recipe import bound_format
from masu.specs.stream import PlannedTensor

INT4 = {"type": "IntSpec", "bits": 4, "group_size": 32, "is_symmetric": False}
FORMATS: dict[str, dict] = {
    "int4": INT4,
    "int8-sym": {**INT4, "bits": 8, "is_symmetric": True},
    "mlx4": {"type": "MLXSpec", "bits": 4, "group_size": 32},
    "lloyd3": {"type": "LloydMaxSpec", "bits": 3, "group_size": 32, "bias_bits": None},
    "mxfp4": {"type": "MicrofloatSpec", "bits": 4, "group_size": 32, "scale_mode": "mxfp4"},
    "rht": {
        "type": "HybridSpec",
        "quantization_spec": INT4,
        "incoherence_block_size": 32,
        "incoherence_processing_mode": "input_output",
    },
    "rht-in": {
        "type": "HybridSpec",
        "quantization_spec": INT4,
        "incoherence_block_size": 32,
        "incoherence_processing_mode": "input",
    },
    "plain": {"type": "FullPrecisionSpec"},
}
CASES = [
    pytest.param(method, name, id=f"{method}-{name}")
    for method in method_names()
    for name in FORMATS
    if find_method(method).problem(bound_format(FORMATS[name], "output_input", "")) is None
]


def matrix(rows: int = 64, columns: int = 64, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)


def moments(columns: int = 64) -> np.ndarray:
    """Of inputs of which a few directions are much larger than the others."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(256, 8)) @ rng.normal(size=(8, columns)) * 3
    x = (x + rng.normal(size=(256, columns))).astype(np.float32)
    return x.T @ x / len(x)


def encoded(method: str, spec: WeightFormat, values: np.ndarray) -> dict[str, np.ndarray]:
    known = find_method(method)
    if isinstance(known, CalibratedMethod):
        seen = moments(values.shape[1])
        return dict(known.encode_calibrated(spec, values, seen, "F32", "group_major"))
    return dict(known.encode(spec, values, "F32", "group_major"))


@pytest.mark.parametrize(("method", "name"), CASES)
def test_what_a_method_writes_decodes_close_to_the_matrix(method: str, name: str) -> None:
    spec, values = bound_format(FORMATS[name], "output_input", name), matrix()
    arrays = encoded(method, spec, values)
    expected = spec.arrays(values.shape, "F32", "group_major")
    assert {suffix: array.shape for suffix, array in arrays.items()} == {
        suffix: each.shape for suffix, each in expected.items()
    }
    plain = independent(arrays, json.loads(spec.to_json()), values.shape, "group_major")
    assert agrees(spec.decode(arrays, values.shape, "group_major", np.float64), plain)
    relative = np.linalg.norm(plain - values) / np.linalg.norm(values)
    # Rounding to nearest leaves 0.02 (8 bits), 0.1 (4 bits), 0.2 (3 bits); feedback twice that,
    # for it moves errors to where the inputs are small. A wrong order leaves 1.4.
    assert relative < (0.5 if method in ("gptq", "yaqa") else 0.25)


def loss(spec: WeightFormat, arrays: dict[str, np.ndarray], values: np.ndarray) -> float:
    """Mean squared error of the outputs, which is what feedback is for."""
    error = spec.decode(arrays, values.shape, "group_major", np.float64) - values
    return float(np.trace(error @ moments(values.shape[1]) @ error.T))


@pytest.mark.parametrize("name", ["int4", "mlx4", "lloyd3", "mxfp4", "rht", "rht-in"])
def test_feedback_halves_the_error_of_the_outputs(name: str) -> None:
    """Without the rotation of the moments, or with columns out of order, it grows instead."""
    spec, values = bound_format(FORMATS[name], "output_input", name), matrix()
    nearest = loss(spec, encoded("rtn", spec, values), values)
    assert loss(spec, encoded("gptq", spec, values), values) < nearest / 2


def test_scale_search_lowers_the_error_of_values_with_outliers() -> None:
    spec = bound_format({**INT4, "group_size": 64}, "output_input", "")
    values = matrix(8, 64)
    values[:, 5] *= 4

    def error(method: str) -> float:
        found = encoded(method, spec, values)
        return float(
            np.square(spec.decode(found, (8, 64), "group_major", np.float64) - values).sum()
        )

    assert error("clip") < 0.97 * error("rtn")


def test_feedback_survives_inputs_that_are_never_used() -> None:
    spec, values = bound_format(INT4, "output_input", ""), matrix()
    unused = moments()
    unused[10], unused[:, 10] = 0, 0
    found = GPTQ.encode_calibrated(spec, values, unused, "F32", "group_major")
    assert np.isfinite(spec.decode(dict(found), values.shape, "group_major", np.float64)).all()


def planned(values: np.ndarray, spec: WeightFormat) -> PlannedTensor:
    return PlannedTensor(
        name="m",
        format=spec,
        shape=values.shape,
        arrays={},
        read=lambda start, stop: values[start:stop],
        pieces=lambda: iter(()),
    )


STREAMED = ["int4", "mlx4", "rht", "rht-in", "lloyd3", "mxfp4"]


@pytest.mark.parametrize("name", STREAMED)
@pytest.mark.parametrize("shape", [(130, 64), (3, 66, 64)])
def test_blocks_of_rows_give_the_bytes_of_the_whole(
    name: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rotated rows come in whole blocks of 32, so 128 of the 130; the last two are the others'."""
    rows = shape[-2] - shape[-2] % 32 if name == "rht" else shape[-2]
    values = np.random.default_rng(3).normal(size=(*shape[:-2], rows, 64)).astype(np.float32)
    spec = bound_format(FORMATS[name], "output_input", name)
    expected = spec.encode(values, "BF16", "group_major")
    monkeypatch.setattr("masu.quantizers.encoding.BLOCK_VALUES", 64 * 16)
    made = quantised(planned(values, spec), spec, find_method("rtn"), "BF16", "group_major")
    parts: dict[str, list[bytes]] = {}
    for array, piece in made.pieces():
        assert isinstance(piece, np.ndarray)
        parts.setdefault(array, []).append(np.ascontiguousarray(piece).tobytes())
    found = {array.removeprefix("m."): b"".join(each) for array, each in parts.items()}
    assert found == {suffix: array.tobytes() for suffix, array in expected.items()}
    whole = spec.decode(expected, values.shape, "group_major", np.float32)
    assert made.decoded is not None
    assert np.array_equal(made.decoded(0, values.shape[0]), whole)


def test_values_that_no_code_can_say_are_refused() -> None:
    values = matrix()
    values[40, 3] = np.nan
    spec = bound_format(INT4, "output_input", "")
    made = quantised(planned(values, spec), spec, find_method("rtn"), "BF16", "group_major")
    with pytest.raises(TensorMismatch, match="m: expected finite values"):
        list(made.pieces())
