"""Native operations on rows against float64, on every instruction set; a row alone is the same."""

import jax.numpy as jnp
import numpy as np
import pytest
from native_runs import (
    BFLOAT16,
    CLASSES,
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
    wide,
)

from masu.runtime.backends.native import library
from masu.specs.blocks.norm import NormalizationConfig

pytestmark = pytest.mark.usefixtures("kernel_settings")

ROWS = {
    "unit": lambda backend, x: backend.unit(x, 1e-6),
    "softmax": lambda backend, x: backend.softmax(x, None),
    "argmax": lambda backend, x: backend.argmax(x),
    "largest": lambda backend, x: backend.largest(x, min(5, x.shape[1])),
    "normalised": lambda backend, x: backend.normalised(x, NORM),
}
NORM = NormalizationConfig(
    epsilon=1e-6,
    scale_offset=None,
    upcast_mode="full_layer",
    subtract_mean=False,
    has_scale=False,
    has_biases=False,
)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("operation", ROWS)
def test_rows(name: str, operation: str) -> None:
    """Relative to a row's largest value; and a row's bits are those it has alone."""
    use(name)
    for width in (1, 15, 16, 33, 300):
        x = random(100, width)
        found = np.asarray(ROWS[operation](NATIVE, jnp.asarray(x)))
        wanted = ROWS[operation](PLAIN, x.astype(np.float64))
        bound = (width / 16 + 12) * UNIT * np.abs(wanted).max(initial=0)
        assert (
            np.abs(found - wanted) <= (0 if operation in ("argmax", "largest") else bound)
        ).all()
        alone = [np.asarray(ROWS[operation](NATIVE, jnp.asarray(row[None]))) for row in x]
        assert np.concatenate(alone).tobytes() == found.tobytes()


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("threads", [1, 3])
def test_the_first_of_the_largest(name: str, threads: int) -> None:
    """Parts are shared out from 32,768 values on, runs are 256: ties within and across them."""
    use(name)
    library.set_threads(threads)
    for width in (70, 40_000):
        x = np.minimum(random(4, width), 2.0)
        x[1, [width - 1, width // 2]] = 9.0
        x[2, [width // 3, width - 1]] = np.nan
        x[3] = -np.inf
        found = np.asarray(NATIVE.argmax(jnp.asarray(x)))
        assert (found == np.argmax(x, axis=-1)).all()


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_in_a_row(name: str, value: float) -> None:
    use(name)
    for operation in ("unit", "softmax", "normalised"):
        x = random(3, 50)
        x[1, 49] = value
        with np.errstate(invalid="ignore"):
            wanted = ROWS[operation](PLAIN, x.astype(np.float64))
        found = np.asarray(ROWS[operation](NATIVE, jnp.asarray(x)))
        assert all((kind(found) == kind(wanted)).all() for kind in CLASSES)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16, FLOAT16])
def test_rotations(name: str, dtype: np.dtype) -> None:
    use(name)
    for pairs, width in [(1, 2), (3, 10), (16, 32), (20, 41)]:
        x, angles = random(5, 3, width, dtype=dtype), random(5, pairs)
        cosines, sines = np.cos(angles), np.sin(angles)
        (found,) = run(NATIVE, "rotate", x, cosines, sines)
        (wanted,) = run(PLAIN, "rotate", *wide([x, cosines, sines]))
        size = np.abs(x.astype(float)).max()
        assert np.abs(found.astype(float) - wanted).max() <= (3 * UNIT + unit_of(dtype)) * 2 * size
        assert (found[..., 2 * pairs :] == x[..., 2 * pairs :]).all()
        for i in range(5):
            alone = [part[i : i + 1] for part in (x, cosines, sines)]
            assert (run(NATIVE, "rotate", *alone)[0] == found[i]).all()


@pytest.mark.parametrize("name", SETS)
def test_the_largest_few(name: str) -> None:
    """Of equals the first comes first, and NaN come last, as in numpy's stable sort."""
    use(name)
    x = np.round(random(9, 70) * 2)
    x[1, 3:5], x[2, :69], x[3, ::2], x[4] = np.nan, np.nan, -np.inf, 0.0
    for count in (1, 8, 70):
        found = np.asarray(NATIVE.largest(jnp.asarray(x), count))
        assert (found == PLAIN.largest(x, count)).all()
