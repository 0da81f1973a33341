"""Native mixtures of experts and tables of vectors against float64; and what changes no bit."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from format_cases import ramp
from native_runs import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    NATIVE,
    PLAIN,
    SETS,
    UNIT,
    random,
    run,
    unit_of,
    use,
)

from masu.runtime.backend import Backend
from masu.runtime.backends.native import library
from masu.runtime.weights import Weight, held_bytes
from masu.specs.blocks.activation import GELU, Activation, Identity, SiLU, SquaredReLU
from masu.specs.blocks.dense_mlp import DenseMLPConfig
from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.ungated_mlp import UngatedMLPConfig
from masu.specs.formats.d4s4 import D4S4Spec
from masu.specs.formats.full_precision import FullPrecisionSpec
from masu.specs.formats.mlx import MLXSpec

pytestmark = pytest.mark.usefixtures("kernel_settings")

WIDTH, HIDDEN, EXPERTS, ACTIVE = 40, 24, 6, 3
ACTIVATIONS = [
    SiLU(type="SiLU", alpha=1.7),
    GELU(type="GELU", approximate=True),
    GELU(type="GELU", approximate=False),
    SquaredReLU(type="SquaredReLU"),
    Identity(type="Identity"),
]


def mlp(activation: Activation, *, gated: bool, biases: bool) -> DenseMLPConfig | UngatedMLPConfig:
    fields: Any = {
        "linear_config": LinearConfig(),
        "activation": activation,
        "has_up_biases": biases,
        "has_down_biases": biases,
    }
    if not gated:
        return UngatedMLPConfig(type="UngatedMLPConfig", **fields)
    clips: Any = {"gate_clipping": (None, 0.8), "up_clipping": (-0.5, 0.9) if biases else None}
    return DenseMLPConfig(type="DenseMLPConfig", **fields, **clips)


def plain(matrix: np.ndarray) -> Weight:
    spec = FullPrecisionSpec(type="FullPrecisionSpec", layout="output_input")
    return Weight(spec, {"weights": matrix}, matrix.shape, "group_major")


def choice(tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Different experts for every row; the last weight of every other row is 0."""
    chosen = np.argsort(random(tokens, EXPERTS), axis=1)[:, :ACTIVE].astype(np.int32)
    weights = np.abs(random(tokens, ACTIVE))
    weights[::2, -1] = 0
    return chosen, weights


def stacks(config: Any, dtype: np.dtype = FLOAT32) -> list[Any]:
    lines = config.up_rows(HIDDEN)
    return [
        plain(random(EXPERTS, lines, WIDTH, dtype=dtype)),
        random(EXPERTS, lines) if config.has_up_biases else None,
        plain(random(EXPERTS, WIDTH, HIDDEN, dtype=dtype)),
        random(EXPERTS, WIDTH) if config.has_down_biases else None,
    ]


def experts(backend: Backend, x: np.ndarray, parts: list[Any], config: Any, *choice: Any) -> Any:
    held = [
        backend.hold(each, x.dtype)
        if isinstance(each, Weight)
        else None if each is None else backend.array(each.astype(choice[1].dtype))
        for each in parts
    ]  # fmt: skip
    return run(backend, "experts", x, *held, config, *choice)[0]


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize(("gated", "biases"), [(True, True), (True, False), (False, False)])
def test_experts(name: str, activation: Activation, gated: bool, biases: bool) -> None:
    """Float32 sums of 40 and 24 products of numbers around 1, three times 1e2 at most."""
    use(name)
    config = mlp(activation, gated=gated, biases=biases)
    x, parts, (chosen, weights) = random(7, WIDTH), stacks(config), choice(7)
    found = experts(NATIVE, x, parts, config, chosen, weights)
    wanted = experts(PLAIN, x.astype(float), parts, config, chosen, weights.astype(float))
    assert np.abs(found - wanted).max() < 2e-6 * np.abs(wanted).max()


@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16, FLOAT16])
def test_a_row_meets_its_experts_alone(dtype: np.dtype) -> None:
    """With any number of rows and of threads; experts without weight may hold anything."""
    config = mlp(ACTIVATIONS[0], gated=True, biases=True)
    x, (chosen, weights) = random(100, WIDTH, dtype=dtype), choice(100)
    weights[chosen == 5] = 0
    parts = stacks(config, dtype)
    parts[0].arrays["weights"][5] = np.nan
    together = experts(NATIVE, x, parts, config, chosen, weights)
    assert np.isfinite(together.astype(float)).all()
    for threads in (1, 2):
        library.set_threads(threads)
        for rows in (1, 2, 7, 100):
            found = experts(NATIVE, x[:rows], parts, config, chosen[:rows], weights[:rows])
            assert found.tobytes() == together[:rows].tobytes()
        alone = experts(NATIVE, x[41:42], parts, config, chosen[41:42], weights[41:42])
        assert alone.tobytes() == together[41].tobytes()


def test_experts_keep_their_codes_and_round_as_the_block() -> None:
    """In bfloat16 a value may fall to the other neighbour at each of four roundings."""
    spec = MLXSpec.model_validate(
        {"type": "MLXSpec", "bits": 4, "group_size": 16, "layout": "output_input"}
    )
    config = mlp(ACTIVATIONS[0], gated=True, biases=False)
    parts = stacks(config)
    for place, shape in ((0, (EXPERTS, 2 * HIDDEN, 48)), (2, (EXPERTS, 48, 32))):
        lines = (shape[0], shape[1] if place else 64, shape[2])
        stored = ramp(spec, lines, "group_major")
        arrays = stored.arrays | {
            key: (stored.arrays[key] * np.float32(1e-4)) for key in ("scales", "biases")
        }
        parts[place] = Weight(spec, arrays, lines, "group_major")
    x, (chosen, weights) = random(5, 48, dtype=BFLOAT16), choice(5)
    found = experts(NATIVE, x, parts, config, chosen, weights).astype(float)
    wanted = experts(PLAIN, x.astype(float), parts, config, chosen, weights.astype(float))
    assert np.abs(found - wanted).max() <= 8 * unit_of(BFLOAT16) * np.abs(wanted).max()
    assert set(NATIVE.hold(parts[0], FLOAT32).arrays) == {"matrix"}


def table(dtype: np.dtype) -> Weight:
    spec = D4S4Spec(type="D4S4Spec", layout="input_output")
    stored = ramp(spec, (70, 384), "group_major")
    arrays = stored.arrays | {"row_scales": random(70, dtype=dtype)}
    return Weight(spec, arrays, stored.shape, stored.planes)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16, FLOAT16])
def test_tables_of_vectors(name: str, dtype: np.dtype) -> None:
    """Looked up they equal the decoded table to the bit; a tied one is a product's matrix too."""
    use(name)
    weight = table(dtype)
    held = NATIVE.hold(weight, FLOAT32)
    assert set(held.arrays) == {"vector_table"}
    assert held_bytes(held) == sum(array.nbytes for array in weight.arrays.values())
    matrix = weight.decode(FLOAT32, np)
    ids = np.array([69, 0, 33, -1, 70, 33])
    found = np.asarray(NATIVE.embed(held, jnp.asarray(ids), FLOAT32))
    assert (found[[0, 1, 2, 5]] == matrix[[69, 0, 33, 33]]).all()
    assert not found[3:5].any()
    x, exact = random(9, 384), weight.decode(np.dtype(np.float64), np)
    size = np.abs(x) @ np.abs(exact).T
    readout = np.asarray(NATIVE.readout(jnp.asarray(x), held))
    assert (np.abs(readout - x @ exact.T) <= (384 / 16 + 16) * UNIT * size + 1e-30).all()
    alone = [np.asarray(NATIVE.readout(jnp.asarray(row[None]), held)) for row in x]
    assert (np.concatenate(alone) == readout).all()
    biased = np.asarray(NATIVE.linear(jnp.asarray(x), held, jnp.asarray(random(70))))
    assert (biased == readout + random(70)).all()
