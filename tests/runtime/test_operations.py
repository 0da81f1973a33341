"""The operations every backend has, against their definitions in plain numpy and `math`."""

import math

import numpy as np
import pytest
from golden import GOLDEN
from shared_backends import shared_backend

from masu.runtime.backend import Array, Backend, wide_dtype
from masu.runtime.backends import backend_names
from masu.runtime.weights import Weight
from masu.specs.blocks.activation import GELU, Activation, Identity, SiLU
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.formats.full_precision import FullPrecisionSpec
from masu.specs.package import Package

BFLOAT16 = NUMPY_DTYPES["BF16"]
X = np.linspace(-9, 9, 181)

pytestmark = pytest.mark.parametrize("name", backend_names())


def exact_dtype(backend: Backend) -> np.dtype:
    """The widest activations that the backend has."""
    return np.dtype("float64" if "float64" in backend.dtypes else "float32")


def tolerance(backend: Backend) -> float:
    """A few roundings of numbers up to 10."""
    return 1e-13 if exact_dtype(backend) == np.float64 else 5e-6


def given(backend: Backend, values: np.ndarray) -> np.ndarray:
    return backend.array(values.astype(exact_dtype(backend)))


def weight(backend: Backend, matrix: np.ndarray) -> Weight:
    plain = FullPrecisionSpec(type="FullPrecisionSpec", layout="output_input")
    stored = Weight(plain, {"weights": matrix}, matrix.shape, "group_major")
    return backend.hold(stored, exact_dtype(backend))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


ACTIVATIONS = [
    (SiLU(type="SiLU", alpha=1.0), lambda x: x * sigmoid(x)),
    (SiLU(type="SiLU", alpha=1.702), lambda x: x * sigmoid(1.702 * x)),
    (GELU(type="GELU", approximate=False), lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
    (
        GELU(type="GELU", approximate=True),
        lambda x: x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)),
    ),
    (Identity(type="Identity"), lambda x: x),
]


def test_name_is_that_of_the_file(name: str) -> None:
    assert shared_backend(name).name == name


@pytest.mark.parametrize(("activation", "definition"), ACTIVATIONS)
def test_activations(name: str, activation: Activation, definition) -> None:
    backend = shared_backend(name)
    found = backend.to_numpy(backend.activate(given(backend, X), activation))
    wanted = np.array([definition(x) for x in X])
    assert np.abs(found - wanted).max() < tolerance(backend)


def test_error_function(name: str) -> None:
    backend = shared_backend(name)
    x = np.concatenate([X, [-1e30, -1e-30, 0, 1e-30, 1e30]])
    found = backend.to_numpy(backend.erf(given(backend, x)))
    assert np.abs(found - np.array([math.erf(each) for each in x])).max() < tolerance(backend)


def test_sigmoid_does_not_overflow(name: str) -> None:
    """numpy would warn, and warnings are errors here."""
    backend = shared_backend(name)
    found = backend.to_numpy(backend.sigmoid(given(backend, np.array([-1e4, -1.0, 0.0, 1e4]))))
    assert np.abs(found - [0, sigmoid(-1), 0.5, 1]).max() < tolerance(backend)


def test_soft_cap_and_clip(name: str) -> None:
    backend = shared_backend(name)
    x = given(backend, X)
    capped = backend.to_numpy(backend.soft_cap(x, 3.0))
    assert np.abs(capped - 3 * np.tanh(X / 3)).max() < tolerance(backend)
    for bounds, wanted in [
        (None, X),
        ((None, None), X),
        ((-1.0, None), np.maximum(X, -1)),
        ((None, 0.0), np.minimum(X, 0)),
        ((-2.0, 3.0), np.clip(X, -2, 3)),
    ]:
        assert np.abs(backend.to_numpy(backend.clip(x, bounds)) - wanted).max() < 1e-6


@pytest.mark.parametrize("subtract_mean", [False, True])
@pytest.mark.parametrize("offset", [None, 1.0])
@pytest.mark.parametrize("has_biases", [False, True])
def test_norm(name: str, subtract_mean: bool, offset: float | None, has_biases: bool) -> None:
    backend = shared_backend(name)
    config = NormalizationConfig(
        epsilon=0.1,
        scale_offset=offset,
        upcast_mode="full_layer",
        subtract_mean=subtract_mean,
        has_scale=True,
        has_biases=has_biases,
    )
    x, scales, biases = np.random.default_rng(0).standard_normal((3, 16)) + 1
    found = backend.norm(
        given(backend, x),
        config,
        given(backend, scales),
        given(backend, biases) if has_biases else None,
    )
    centred = x - x.mean() if subtract_mean else x
    wanted = centred / np.sqrt((centred**2).mean() + 0.1) * (scales + (offset or 0))
    wanted = wanted + (biases if has_biases else 0)
    assert np.abs(backend.to_numpy(found) - wanted).max() < tolerance(backend)


@pytest.mark.parametrize("mode", ["only_normalization", "full_layer"])
def test_norm_rounds_where_its_mode_says(name: str, mode) -> None:
    backend = shared_backend(name)
    config = NormalizationConfig(
        epsilon=1e-6,
        scale_offset=1.0,
        upcast_mode=mode,
        subtract_mean=False,
        has_scale=True,
        has_biases=False,
    )
    numbers = np.random.default_rng(1)
    x = numbers.standard_normal((50, 64)).astype(BFLOAT16)
    scales = numbers.standard_normal(64).astype(np.float32)
    found = backend.norm(backend.array(x), config, backend.array(scales), None)
    wide = x.astype(np.float64)
    normalised = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6)
    shifted = scales.astype(np.float64) + 1
    if mode == "only_normalization":
        normalised, shifted = (
            values.astype(BFLOAT16).astype(np.float64) for values in (normalised, shifted)
        )
    wanted = (normalised * shifted).astype(BFLOAT16)
    same = backend.to_numpy(found) == wanted
    # A float32 sum may put a value on the other side of a tie; the other mode differs in 40 %.
    assert same.mean() > 0.99


@pytest.mark.parametrize("activation", [activation for activation, _ in ACTIVATIONS[:2]])
def test_gated_mlp(name: str, activation: Activation) -> None:
    """Up rows first, clips before the activation and the product, both biases."""
    backend = shared_backend(name)
    numbers = np.random.default_rng(2)
    x, up, up_biases = (numbers.standard_normal(shape) for shape in [(3, 5), (14, 5), (14,)])
    down, down_biases = numbers.standard_normal((5, 7)), numbers.standard_normal(5)
    arguments = (
        weight(backend, up),
        given(backend, up_biases),
        weight(backend, down),
        given(backend, down_biases),
        activation,
        (-0.5, 1.5),
        (None, 1.0),
    )
    found = backend.gated_mlp(given(backend, x), *arguments)
    values, gates = np.split(x @ up.T + up_biases, 2, axis=1)
    alpha = activation.alpha if isinstance(activation, SiLU) else 1
    values, gates = np.clip(values, -0.5, 1.5), np.minimum(gates, 1.0)
    wanted = (values * gates / (1 + np.exp(-alpha * gates))) @ down.T + down_biases
    assert np.abs(backend.to_numpy(found) - wanted).max() < 10 * tolerance(backend)


def test_rotation_leaves_the_other_channels(name: str) -> None:
    backend = shared_backend(name)
    x = np.random.default_rng(3).standard_normal((4, 2, 10))
    angles = np.random.default_rng(4).standard_normal((4, 3))
    cosines, sines = given(backend, np.cos(angles)), given(backend, np.sin(angles))
    found = backend.to_numpy(backend.rotate(given(backend, x), cosines, sines))
    turned = (x[..., :3] + 1j * x[..., 3:6]) * np.exp(1j * angles)[:, None]
    wanted = np.concatenate([turned.real, turned.imag, x[..., 6:]], axis=-1)
    assert np.abs(found - wanted).max() < tolerance(backend)


def test_angles_far_out(name: str) -> None:
    """Positions of a long context: the product is rounded, its cosine must not lose more."""
    backend = shared_backend(name)
    positions = np.array([0, 1, 131071], np.int32)
    frequencies = np.array([1.0, 0.1, 1e-4])
    wide = wide_dtype(exact_dtype(backend))
    found = backend.rotations(given(backend, frequencies), 1.5, backend.array(positions))
    angles = (positions[:, None] * frequencies.astype(wide)).astype(wide).astype(np.float64)
    for values, wanted in zip(found, (np.cos(angles), np.sin(angles)), strict=True):
        assert np.abs(backend.to_numpy(values) - 1.5 * wanted).max() < tolerance(backend)


def test_write_drops_what_does_not_fit(name: str) -> None:
    backend = shared_backend(name)
    rows = np.arange(1.0, 5).reshape(1, 4, 1)
    for position, wanted in [
        (0, [1, 2, 3, 4, 0, 0]),
        (2, [0, 0, 1, 2, 3, 4]),
        (3, [0, 0, 0, 1, 2, 3]),
        (5, [0, 0, 0, 0, 0, 1]),
    ]:
        buffer = backend.zeros((1, 6, 1), exact_dtype(backend))
        found = backend.write(buffer, given(backend, rows), np.int32(position))
        assert backend.to_numpy(found).ravel().tolist() == wanted
        plain = Backend.write(backend, backend.zeros((1, 6, 1), exact_dtype(backend)),
                              given(backend, rows), position)  # fmt: skip
        assert backend.to_numpy(plain).ravel().tolist() == wanted


def test_grow_keeps_what_there_is(name: str) -> None:
    backend = shared_backend(name)
    buffer = given(backend, np.arange(12.0).reshape(2, 3, 2))
    found = backend.to_numpy(backend.grow(buffer, 5))
    assert np.array_equal(found[:, :3], np.arange(12.0).reshape(2, 3, 2))
    assert not found[:, 3:].any()
    assert found.shape == (2, 5, 2)


@pytest.mark.parametrize("case", ["llama-int4-g32-asym", "llama-rht-all", "llama-other-specs"])
def test_products_with_stored_weights(name: str, case: str) -> None:
    """The operations take a matrix as stored, and as the backend holds it."""
    backend = shared_backend(name)
    package = Package.open(GOLDEN / case / "engine")
    path = "decoder.transformer.layers.0.mlp.down_projection.weights"
    weight_format, shape = package.formats[path], (64, 128)
    arrays = {
        suffix: package.read(f"{path}.{suffix}")
        for suffix in weight_format.arrays(shape, package.dtype, package.planes)
    }
    stored = Weight(weight_format, arrays, shape, package.planes)
    x = np.random.default_rng(5).standard_normal((3, 128))
    wanted = x @ weight_format.decode(arrays, shape, package.planes, np.dtype("float64")).T
    held = backend.hold(stored, exact_dtype(backend))
    for each in (stored, held):
        found = backend.to_numpy(backend.linear(given(backend, x), each))
        assert np.abs(found - wanted).max() / wanted.std() < tolerance(backend)


def test_total_adds_terms_in_their_order(name: str) -> None:
    """Of 1, 1e8 and -1e8 in float32 the order can be seen: (1 + 1e8) - 1e8 is 0."""
    backend = shared_backend(name)
    terms = np.array([1, 1e8, -1e8], np.float32)
    start = backend.array(np.zeros((), np.float32))

    def run(backend: Backend, count: int, terms: Array, start: Array) -> Array:
        return backend.total(lambda place: terms[place], count, start)

    for count, wanted in ((0, 0), (1, 1), (3, 0)):
        assert backend.compile(run, count)(backend.array(terms), start) == wanted
