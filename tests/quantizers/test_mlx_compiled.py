"""The compiled encoder of method `mlx` writes the bits of the numpy code that it stands in for."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from mlx_matrices import BITS, DTYPES, GROUP_SIZES

from masu.quantizers.encoding import quantised
from masu.quantizers.methods.mlx import METHOD, encode_in_numpy
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.errors import TensorMismatch
from masu.specs.formats import MLXSpec
from masu.specs.formats.native import encoders
from masu.specs.formats.native.encoders import all_finite, encode_mlx
from masu.specs.stream import PlannedTensor

needs_encoders = pytest.mark.skipif(
    encoders.why_not() is not None, reason=f"encoders: {encoders.why_not()}"
)
SHAPES = [(1, 128), (7, 384), (3, 4224), (2, 3, 256)]
"""4,224 columns, and all rows of 384, are more than the encoder has in its hands at a time."""


def spec_of(bits: int, group_size: int) -> MLXSpec:
    fields = {"type": "MLXSpec", "bits": bits, "group_size": group_size}
    return MLXSpec.model_validate({**fields, "layout": "output_input"})


def numbers(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Every finite pattern of bits is as likely as any other: tiny and huge ones, both zeros."""
    stored, rng = NUMPY_DTYPES[dtype], np.random.default_rng(seed)
    words = np.dtype(f"<u{stored.itemsize}")
    bits = rng.integers(0, np.iinfo(words).max, shape, words, endpoint=True)
    values = bits.view(stored)
    return np.where(np.isfinite(values.astype(np.float32)), values, stored.type(-0.0))


def stored_type(dtype: str) -> type[np.generic]:
    return NUMPY_DTYPES[dtype].type


def alike(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Groups of numbers of one size, as weights are; some of a few values, some of one."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape) * 2.0 ** rng.integers(-30, 10, (*shape[:-1], 1))
    values[..., 32:96] = np.rint(values[..., 32:96] * 4) / 4
    values[0] = values[0].flat[0]
    return values.astype(NUMPY_DTYPES[dtype])


def cases(dtype: str) -> Iterator[np.ndarray]:
    for seed, shape in enumerate(SHAPES):
        yield numbers(dtype, shape, seed)
        yield alike(dtype, shape, seed)
    yield numbers(dtype, (8, 512), 9)[1::2, :256]  # not contiguous
    huge = np.full((6, 128), 6e4 if dtype == "F16" else 3e38).astype(NUMPY_DTYPES[dtype])
    huge[1], huge[2] = -huge[1], -0.0
    huge[3, 5], huge[4, ::3] = huge[3, 5] * stored_type(dtype)(0.99), -huge[4, ::3]
    yield huge


@needs_encoders
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("portable", [False, True])
def test_bits_are_those_of_the_numpy_code(dtype: str, portable: bool) -> None:
    for size in GROUP_SIZES:
        for bits in BITS:
            spec = spec_of(bits, size)
            for values in cases(dtype):
                found = encode_mlx(values, bits, size, portable=portable)
                assert found is not None
                wanted = encode_in_numpy(spec, values, "F32", "row_major")
                assert found.packed.tobytes() == wanted["weights"].tobytes()
                assert found.scales.tobytes() == wanted["scales"].tobytes()
                assert found.biases.tobytes() == wanted["biases"].tobytes()


@needs_encoders
@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_number_that_is_none_is_found_anywhere(dtype: str, portable: bool) -> None:
    stored = NUMPY_DTYPES[dtype]
    largest = stored.type(np.float32(65504 if dtype == "F16" else 3.3e38))
    for count in (1, 7, 33, 70):
        values = np.full(count, largest)
        assert all_finite(values, portable=portable)
        for place in range(count):
            for bad in (np.nan, -np.nan, np.inf, -np.inf):
                values[place] = bad
                assert all_finite(values, portable=portable) is False
            values[place] = -largest


def test_the_other_types_are_left_to_numpy() -> None:
    assert encode_mlx(np.zeros((2, 64)), 4, 64) is None
    assert all_finite(np.zeros(2, np.float64)) is None
    assert encode_mlx(np.zeros((2, 64), np.float32), 4, 16) is None
    assert encode_mlx(np.zeros((2, 64), np.float32), 1, 64) is None


def planned(values: np.ndarray, spec: MLXSpec) -> PlannedTensor:
    return PlannedTensor(
        name="m",
        format=spec,
        shape=values.shape,
        arrays={},
        read=lambda start, stop: values[start:stop],
        pieces=lambda: iter(()),
    )


def written(values: np.ndarray) -> dict[str, bytes]:
    """The bytes of each stored array, encoded block by block on several threads."""
    spec, parts = spec_of(4, 64), dict[str, bytes]()
    for name, piece in quantised(planned(values, spec), spec, METHOD, "BF16", "row_major").pieces():
        assert isinstance(piece, np.ndarray)
        parts[name] = parts.get(name, b"") + np.ascontiguousarray(piece).tobytes()
    return parts


@pytest.mark.parametrize("dtype", [*DTYPES, "F64"])
def test_neither_threads_nor_the_compiler_change_a_byte(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("masu.quantizers.encoding.BLOCK_VALUES", 128 * 8)
    values = np.random.default_rng(1).standard_normal((130, 128)).astype(NUMPY_DTYPES[dtype])
    spec = spec_of(4, 64)
    wanted = {
        f"m.{suffix}": array.tobytes()
        for suffix, array in encode_in_numpy(spec, values, "BF16", "row_major").items()
    }
    for threads in (1, 2, 5):
        monkeypatch.setattr("os.cpu_count", lambda count=threads: count)
        assert written(values) == wanted
    without_library(monkeypatch)
    assert encode_mlx(values.astype(np.float32), 4, 64) is None
    assert written(values) == wanted


@needs_encoders
def test_calls_at_the_same_time_do_not_meet() -> None:
    given = [numbers("BF16", (64, 4096), seed) for seed in range(8)]
    wanted = [encode_mlx(values, 4, 64) for values in given]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda values: encode_mlx(values, 4, 64), given * 4))
    for index, each in enumerate(found):
        same = wanted[index % len(given)]
        assert each is not None
        assert same is not None
        assert all(np.array_equal(a, b) for a, b in zip(each, same, strict=True))


@pytest.mark.parametrize("dtype", [*DTYPES, "F64"])
@pytest.mark.parametrize("compiled", [True, False])
def test_infinite_values_are_refused(
    dtype: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        without_library(monkeypatch)
    values = np.ones((8, 64), NUMPY_DTYPES[dtype])
    assert written(values)
    values[5, 63] = -np.inf
    with pytest.raises(TensorMismatch, match="m: expected finite values"):
        written(values)


def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "_library", lambda: "not there, in this test")
    assert encoders.why_not() == "not there, in this test"


def test_without_a_compiler_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "EXTENSION_SUFFIXES", [".missing"])
    encoders._library.cache_clear()
    try:
        assert "no working C++17 compiler" in (encoders.why_not() or "")
    finally:
        encoders._library.cache_clear()
