"""What is MLX's own: how arrays cross over, codes kept as codes, caches shared until written to.

Its numbers are compared where those of every backend are: golden packages, parity, operations.
"""

import subprocess
import sys

import numpy as np
import pytest
from golden import GOLDEN
from golden_sources import TOLERANCE
from shared_backends import shared_backend

from masu.runtime.backend import Backend
from masu.runtime.backends import load_backend
from masu.runtime.model import load_model
from masu.runtime.weights import Weight
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.package import Package

BFLOAT16, FLOAT32 = NUMPY_DTYPES["BF16"], np.dtype(np.float32)
MATRIX = "decoder.transformer.layers.0.mlp.down_projection.weights"


@pytest.fixture
def mlx() -> Backend:
    return shared_backend("mlx")


@pytest.fixture
def for_gpu(mlx: Backend) -> Backend:
    """A backend of its own that gives MLX what it gives to a GPU, whatever computes here."""
    backend = load_backend(mlx.name)
    backend.is_gpu = True  # pyright: ignore[reportAttributeAccessIssue]
    return backend


def stored(case: str) -> Weight:
    package = Package.open(GOLDEN / case / "engine")
    form, shape = package.formats[MATRIX], (64, 128)
    arrays = {
        suffix: package.read(f"{MATRIX}.{suffix}")
        for suffix in form.arrays(shape, package.dtype, package.planes)
    }
    return Weight(form, arrays, shape, package.planes)


@pytest.mark.parametrize("dtype", [BFLOAT16, np.float16, np.float32, np.int32, np.uint8, bool])
def test_arrays_come_back_as_they_went(mlx: Backend, dtype: np.dtype) -> None:
    values = np.arange(-3, 3).reshape(2, 3).astype(dtype)
    back = mlx.to_numpy(mlx.array(values))
    assert back.dtype == values.dtype
    assert np.array_equal(back, values)


@pytest.mark.parametrize("case", ["llama-mlx-4bit-g64", "llama-mlx-8bit-g32", "llama-int4-g32-sym"])
def test_codes_stay_codes(mlx: Backend, case: str) -> None:
    """Decoded they would take 4 bytes each."""
    weight = stored(case)
    held = mlx.hold(weight, FLOAT32)
    assert held.format == weight.format
    assert held.arrays["words"].nbytes == weight.arrays["weights"].nbytes


def test_a_gpu_gets_what_is_narrow_as_it_is(for_gpu: Backend) -> None:
    """Planes that bfloat16 holds, and plain matrices: no copy is twice as wide."""
    codes = for_gpu.hold(stored("llama-mlx-4bit-g64"), BFLOAT16)
    plain = for_gpu.hold(stored("llama"), BFLOAT16)
    zero_points = for_gpu.hold(stored("llama-int4-g32-asym"), BFLOAT16)
    arrays = codes.arrays["scales"], codes.arrays["biases"], plain.arrays["weights"]
    assert {for_gpu.to_numpy(array[:1]).dtype for array in arrays} == {BFLOAT16}
    assert for_gpu.to_numpy(zero_points.arrays["biases"]).dtype == FLOAT32


@pytest.mark.parametrize("case", ["llama", "llama-mlx-mixed", "gpt_oss"])
def test_numbers_are_the_same_in_the_way_of_a_gpu(for_gpu: Backend, case: str) -> None:
    """In float32, where no step is narrow."""
    package = Package.open(GOLDEN / case / "engine")
    ids = np.load(GOLDEN / case / "reference.npz")["input_ids_1"]
    plain, found = (
        load_model(package, dtype="float32", backend=backend).logits(ids)
        for backend in (shared_backend("mlx"), for_gpu)
    )
    assert np.abs(plain - found).max() / plain.std() < TOLERANCE


def test_narrow_activations_in_the_way_of_a_gpu(for_gpu: Backend) -> None:
    """MLX's CPU code rounds its partial sums there (4 % in one product): the types must be right.

    Logits stay wide: rounded to bfloat16 they would have 8 significant bits.
    """
    package = Package.open(GOLDEN / "llama-mlx-mixed/engine")
    golden = np.load(GOLDEN / "llama-mlx-mixed/reference.npz")
    model = load_model(package, dtype="bfloat16", backend=for_gpu)
    found, wanted = model.logits(golden["input_ids_1"]), golden["logits_1"]
    assert np.sqrt(np.mean((found - wanted) ** 2)) / wanted.std() < 0.2
    assert (found != found.astype(BFLOAT16).astype(np.float32)).mean() > 0.9


def test_a_fork_is_not_written_to(mlx: Backend) -> None:
    """`write` changes a cache in place; a copy made before must keep what it had."""
    buffer = mlx.zeros((1, 4, 1), FLOAT32)
    kept = mlx.copy(buffer)
    mlx.write(buffer, mlx.array(np.ones((1, 2, 1), np.float32)), np.int32(1))
    assert mlx.to_numpy(kept).ravel().tolist() == [0, 0, 0, 0]
    assert mlx.to_numpy(buffer).ravel().tolist() == [0, 1, 1, 0]


def test_void_rows_have_no_influence(mlx: Backend) -> None:
    numbers = np.random.default_rng(0)
    queries, keys, values = (
        numbers.standard_normal(shape).astype(np.float32)
        for shape in ((3, 4, 8), (2, 16, 8), (2, 16, 8))
    )

    def attend(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        out = mlx.attention(
            mlx.array(queries), mlx.array(keys), mlx.array(values), position=np.int32(2),
            length=np.int32(5), scale=1.0, is_causal=True, window=3, soft_cap=None, sinks=None,
        )  # fmt: skip
        return mlx.to_numpy(out)

    wanted = attend(keys, values)
    keys[:, 5:], values[:, 5:] = np.nan, np.nan
    assert np.array_equal(attend(keys, values), wanted)
    values[:, 4] += 1
    assert not np.array_equal(attend(keys, values), wanted)


def test_it_runs_without_jax(mlx: Backend) -> None:
    script = f"""
import sys
sys.modules["jax"] = None
import masu
model = masu.load({str(GOLDEN / "llama-tied/engine")!r}, backend={mlx.name!r})
print(sum(1 for token in model.generate("Hi", max_tokens=2)))
"""
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("2\n", "")
