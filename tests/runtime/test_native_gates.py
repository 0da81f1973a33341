"""A product whose second half gates the first, in one call: the bits of a product and a gate."""

import jax.numpy as jnp
import numpy as np
import pytest
from format_cases import ramp
from native_runs import BFLOAT16, FLOAT16, FLOAT32, NATIVE, SETS, use

from masu.runtime.backends.native import native_backend
from masu.runtime.weights import Weight
from masu.specs.blocks.activation import GELU, SiLU
from masu.specs.formats.full_precision import FullPrecisionSpec
from masu.specs.formats.mlx import MLXSpec

pytestmark = pytest.mark.usefixtures("kernel_settings")

TYPES = [FLOAT32, FLOAT16, BFLOAT16]
WIDTH = 64


def plain(matrix: np.ndarray) -> Weight:
    spec = FullPrecisionSpec(type="FullPrecisionSpec", layout="output_input")
    return NATIVE.hold(Weight(spec, {"weights": matrix}, matrix.shape, "group_major"), TYPES[0])


def coded(rows: int) -> Weight:
    fields = {"bits": 4, "group_size": 32, "layout": "output_input"}
    spec = MLXSpec.model_validate({"type": "MLXSpec", **fields})
    matrix = ramp(spec, (rows, WIDTH), "group_major")
    given = Weight(matrix.spec, matrix.arrays, matrix.shape, matrix.planes)
    return NATIVE.hold(given, TYPES[2])


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("hidden", [32, 96])
def test_one_call_makes_the_bits_of_two(
    name: str, dtype: np.dtype, hidden: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(name)
    numbers = np.random.default_rng(hidden)
    biases = jnp.asarray(numbers.standard_normal(2 * hidden), np.float32)
    floats = plain(numbers.standard_normal((2 * hidden, WIDTH)).astype(np.float32))
    down = plain(np.eye(hidden, dtype=np.float32))
    for rows in (1, 3, 40):
        x = jnp.asarray(numbers.standard_normal((rows, WIDTH)), dtype)
        for up in (floats, coded(2 * hidden)):
            found = []
            for tile in (32, hidden + 1):  # of the second no width is a multiple
                monkeypatch.setattr(native_backend, "TILE", tile)
                silu = NATIVE.gated_mlp(
                    x, up, biases, down, None, SiLU(type="SiLU", alpha=1.0), (-0.5, 1.5), None
                )
                gelu = NATIVE.gated_mlp(
                    x, up, None, down, None, GELU(type="GELU", approximate=True), None, None
                )
                found.append(np.asarray(silu).tobytes() + np.asarray(gelu).tobytes())
            assert found[0] == found[1]
