"""A table that stays as it is stored gives the numbers of one that was decoded as a whole."""

from pathlib import Path

import numpy as np
import pytest
from golden import GOLDEN

from masu.runtime.backends.numpy import NumpyBackend
from masu.runtime.weights import Weight
from masu.specs.package import Package
from masu.verification import by_rows
from masu.verification.by_rows import RowwiseBackend
from masu.verification.fingerprints import divergences, fingerprints_of

FLOAT64 = np.dtype(np.float64)
CASES = ["llama-tied", "llama-mlx-4bit-g64", "llama-int4-g32-asym", "llama-tied-mlx-embedding"]


def package(case: str) -> Package:
    return Package.open(GOLDEN / case / "engine")


@pytest.fixture(name="small")
def in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_rows, "WHOLE", 0)
    monkeypatch.setattr(by_rows, "TOGETHER", 1000)


def weights(path: Path) -> list[Weight]:
    opened = Package.open(path)
    found = []
    for name, weight_format in opened.formats.items():
        shape = dict(opened.config.tensors())[name].shape
        suffixes = weight_format.arrays(shape, opened.dtype, opened.planes)
        arrays = {suffix: opened.read(f"{name}.{suffix}") for suffix in suffixes}
        found.append(Weight(weight_format, arrays, shape, opened.planes))
    return found


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("case", CASES)
def test_products_are_the_same(case: str) -> None:
    stored, plain = RowwiseBackend(), NumpyBackend()
    for weight in weights(GOLDEN / case / "engine"):
        held, whole = stored.hold(weight, FLOAT64), plain.hold(weight, FLOAT64)
        assert held is weight
        ids = np.array([3, 1, 3, weight.shape[0] - 1])
        assert np.array_equal(stored.embed(held, ids, FLOAT64), plain.embed(whole, ids, FLOAT64))
        x = np.random.default_rng(0).normal(size=(3, weight.shape[1]))
        found, expected = stored.readout(x, held), plain.readout(x, whole)
        assert np.abs(found - expected).max() <= 1e-13 * np.abs(expected).max()


@pytest.mark.parametrize("case", CASES)
def test_fingerprints_are_the_same(case: str, request: pytest.FixtureRequest) -> None:
    """Those of packages that were made before stay valid."""
    whole = fingerprints_of(package(case))
    request.getfixturevalue("small")
    assert not list(divergences(fingerprints_of(package(case)), whole))
