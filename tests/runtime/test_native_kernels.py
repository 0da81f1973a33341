"""Native kernels against float64, on every instruction set; and what must change no bit."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from format_cases import StoredMatrix, ramp
from golden import GOLDEN
from shared_backends import shared_backend

from masu.runtime.backend import Backend
from masu.runtime.backends import load_backend, why_not
from masu.runtime.model import load_model
from masu.runtime.weights import Weight, held_bytes
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.errors import RequestError
from masu.specs.formats.full_precision import FullPrecisionSpec
from masu.specs.formats.integer import IntSpec
from masu.specs.formats.mlx import MLXSpec
from masu.specs.package import Package

if problem := why_not("native"):
    pytest.skip(problem, allow_module_level=True)

from masu.runtime.backends.native import library
from masu.runtime.backends.native.kernels import KERNELS, PROGRAM_ONLY

NATIVE, PLAIN = shared_backend("native"), shared_backend("numpy")
FLOAT32, BFLOAT16 = np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)
SETS = library.INSTRUCTION_SETS
ROWS = (1, 2, 7, 16, 100, 1024)


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Threads and instruction set are of the process."""
    threads, chosen = library.threads(), library.instruction_set()
    yield
    library.set_threads(threads)
    library.use_instruction_set(chosen)


def use(name: str) -> None:
    if not library.use_instruction_set(name):
        pytest.skip(f"this processor has no {name}")


def plain(matrix: np.ndarray) -> Weight:
    spec = FullPrecisionSpec(type="FullPrecisionSpec", layout="output_input")
    return Weight(spec, {"weights": matrix}, matrix.shape, "group_major")


def stored(matrix: StoredMatrix) -> Weight:
    return Weight(matrix.spec, matrix.arrays, matrix.shape, matrix.planes)


def codes(bits: int, group_size: int, rows: int, columns: int, kind: str = "MLX") -> Weight:
    fields = {"bits": bits, "group_size": group_size, "layout": "output_input"}
    if kind == "MLX":
        spec = MLXSpec.model_validate({"type": "MLXSpec", **fields})
    else:
        spec = IntSpec.model_validate({"type": "IntSpec", "is_symmetric": kind == "sym", **fields})
    return stored(ramp(spec, (rows, columns), "group_major"))


def product(x: np.ndarray, weight: Weight) -> np.ndarray:
    return np.asarray(NATIVE.readout(jnp.asarray(x), weight))


def held(weight: Weight) -> Weight:
    found = NATIVE.hold(weight, FLOAT32)
    assert found.format == weight.format, "no kernel reads it as it is stored"
    return found


def random(*shape: int, dtype: np.dtype = FLOAT32) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


# Tiles are 4 and 32 rows of weights, 64 columns, 4 and 128 rows: at each one below, at and above.
EDGES = [(1, 16, 1), (3, 48, 5), (32, 64, 4), (33, 80, 3), (65, 144, 2), (31, 1024, 129)]


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(("height", "width", "rows"), EDGES)
def test_products_at_the_edges_of_tiles(name: str, height: int, width: int, rows: int) -> None:
    """Sums of up to 1024 products in float32; a dropped last tile would be wrong altogether."""
    use(name)
    weights = [plain(random(height, width, dtype=t)) for t in (FLOAT32, BFLOAT16, np.dtype("f2"))]
    weights += [
        codes(bits, 16, height, width, kind)
        for bits, kind in [(4, "MLX"), (8, "MLX"), (1, "MLX"), (4, "sym"), (8, "asym"), (4, "asym")]
    ]
    x = random(rows, width)
    for weight in weights:
        matrix = weight.decode(np.dtype(np.float64), np)
        wanted = x.astype(np.float64) @ matrix.T
        size = np.abs(x).astype(np.float64) @ np.abs(matrix).T
        # 16 lanes of width / 16 products each, then 4 levels: half a unit for every addition.
        bound = (width / 16 + 8) * 2.0**-24 * size + 1e-30
        assert (np.abs(product(x, held(weight)) - wanted) <= bound).all(), weight.format


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("kind", ["bf16", "4 bits", "8 bits"])
def test_a_row_is_the_same_alone(name: str, kind: str) -> None:
    use(name)
    matrix = (
        plain(random(70, 192, dtype=BFLOAT16))
        if kind == "bf16"
        else codes(int(kind[0]), 64, 70, 192)
    )
    weight, x = held(matrix), random(max(ROWS), 192, dtype=BFLOAT16)
    everything = product(x, weight)
    for rows in ROWS:
        assert (product(x[:rows], weight) == everything[:rows]).all()
    for row in (0, 6, 99, 1023):
        assert (product(x[row : row + 1], weight) == everything[row]).all()


@pytest.mark.parametrize("rows", [1, 100])
def test_threads_change_no_bit(rows: int) -> None:
    weight, x = held(codes(4, 32, 300, 256)), random(rows, 256)
    found = []
    for threads in (1, 2, 3, 2, 2, 2, 2, 1):
        NATIVE.set_threads(threads)
        found.append(product(x, weight).tobytes())
    assert len(set(found)) == 1


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("rows", [1, 5])
def test_what_is_not_finite_stays_of_its_class(name: str, rows: int) -> None:
    """An infinity times zero, opposed infinities and NaN, each as in plain arithmetic."""
    use(name)
    matrix = random(40, 80)
    matrix[3, 7], matrix[4, :2], matrix[5, 11] = 0.0, (1.0, -1.0), np.nan
    weight = held(plain(matrix))
    for place, value in [(7, np.inf), (slice(0, 2), np.inf), (79, np.nan), (0, -np.inf)]:
        x = random(rows, 80)
        x[:, place] = value
        with np.errstate(invalid="ignore"):
            wanted = (x[:, None].astype(np.float64) * matrix).sum(-1)
        found = product(x, weight)
        for kind in (np.isnan, np.isposinf, np.isneginf):
            assert (kind(found) == kind(wanted)).all()


def test_tiny_numbers_are_no_zeros_on_any_thread() -> None:
    """XLA's own threads flush them: rows would differ with the thread that took them."""
    NATIVE.set_threads(2)
    weight = held(plain(np.ones((4096, 64), np.float32)))
    x = np.zeros((1, 64), np.float32)
    x[0, 0] = 1e-40
    for _ in range(5):
        assert (product(x, weight) == np.float32(1e-40)).all()


def test_products_are_rounded_once_and_biased_before() -> None:
    weight, biases = held(plain(random(40, 64, dtype=BFLOAT16))), jnp.asarray(random(40))
    x = jnp.asarray(random(3, 64, dtype=BFLOAT16))
    found = NATIVE.linear(x, weight, biases)
    assert found.dtype == BFLOAT16
    wide = np.asarray(NATIVE.readout(x, weight)) + np.asarray(biases)
    assert (np.asarray(found) == wide.astype(BFLOAT16)).all()


def test_rows_outside_a_table_are_zeros() -> None:
    table = held(codes(4, 16, 12, 48))
    found = np.asarray(NATIVE.embed(table, jnp.asarray([-1, 12, 11]), FLOAT32))
    assert not found[:2].any()
    assert found[2].any()


CACHE = 70
ATTENTION = [
    {"is_causal": True, "window": None, "soft_cap": None},
    {"is_causal": True, "window": 9, "soft_cap": 20.0},
    {"is_causal": False, "window": None, "soft_cap": None},
    {"is_causal": False, "window": 12, "soft_cap": None},
]


def attend(
    backend: Backend,
    dtype: Any,
    tokens: int,
    first: int,
    options: dict[str, Any],
    *,
    sinks: np.ndarray | None = None,
    width: int = 40,
    stray: float = 0.0,
) -> np.ndarray:
    """Queries of places `first ...` over a cache of 70 rows; those past the last are void."""
    draw = np.random.default_rng(8)
    keys, values = (draw.standard_normal((2, CACHE, width)).astype(dtype) for _ in range(2))
    queries = draw.standard_normal((CACHE, 6, width)).astype(dtype)[first : first + tokens]
    length = 60 if not options["is_causal"] else first + tokens
    keys[:, length:], values[:, length:] = stray, stray
    given = [backend.array(each) for each in (queries, keys, values)]
    return backend.to_numpy(
        backend.attention(
            *given,
            position=backend.array(np.array(first, np.int32)),
            length=backend.array(np.array(length, np.int32)),
            scale=0.3,
            sinks=None if sinks is None else backend.array(sinks),
            **options,
        )
    )


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("options", ATTENTION, ids=str)
@pytest.mark.parametrize("has_sinks", [False, True])
@pytest.mark.parametrize("width", [40, 64])
def test_attention_against_float64(name: str, options: dict, has_sinks: bool, width: int) -> None:
    use(name)
    sinks = np.linspace(-1, 2, 6) if has_sinks else None
    single = None if sinks is None else sinks.astype(np.float32)
    for tokens, first in [(1, 0), (1, 33), (21, 17)]:
        given = tokens, first, options
        wanted = attend(PLAIN, np.float64, *given, sinks=sinks, width=width)
        found = attend(NATIVE, np.float32, *given, sinks=single, width=width, stray=np.nan)
        assert np.abs(found - wanted).max() < 2e-6


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("options", ATTENTION[:2], ids=str)
@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT32], ids=str)
@pytest.mark.parametrize("width", [40, 64])
def test_a_query_gets_the_same_alone(name: str, options: dict, dtype: Any, width: int) -> None:
    """Whoever shares its keys, and however its heads are shared out among threads."""
    use(name)
    together = attend(NATIVE, dtype, 30, 12, options, width=width)
    for threads, place in itertools.product((1, 2, 3), (0, 7, 8, 29)):
        library.set_threads(threads)
        alone = attend(NATIVE, dtype, 1, 12 + place, options, width=width, stray=np.nan)
        assert (alone[0] == together[place]).all()


NORMS = list(itertools.product(["only_normalization", "full_layer"], [False, True]))


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(("mode", "has_mean"), NORMS)
def test_norms(name: str, mode: str, has_mean: bool) -> None:
    """Float32 near float64; bfloat16 within a unit of it, rounded where the mode says."""
    use(name)
    fields = {"epsilon": 1e-5, "scale_offset": 1.0, "upcast_mode": mode}
    fields |= {"subtract_mean": has_mean, "has_scale": True, "has_biases": True}
    config = NormalizationConfig.model_validate(fields)
    for width in (5, 16, 50):
        x, vectors = random(9, width), (random(width), random(width + 1)[1:])
        given = [jnp.asarray(each) for each in vectors]

        def norm(rows: np.ndarray, given: list[Any] = given) -> np.ndarray:
            return np.asarray(NATIVE.norm(jnp.asarray(rows), config, *given))

        for dtype, bound in ((FLOAT32, 1e-6), (BFLOAT16, 0.0)):
            rows = x.astype(dtype)
            wanted = PLAIN.norm(rows, config, *vectors).astype(float)
            found = norm(rows)
            # One value in many lies so near a tie that the sums' own rounding decides it.
            distance = np.quantile(np.abs(found.astype(float) - wanted), 0.99)
            assert distance <= bound * np.abs(wanted).max()
            assert (np.concatenate([norm(row[None]) for row in rows]) == found).all()


def test_every_kernel_of_the_library_has_a_contract() -> None:
    sources = Path(library.__file__).with_name("cpp").glob("*.cpp")
    found = (re.findall(r"ffi::Error\* (masu_\w+)\(", source.read_text()) for source in sources)
    targets = {target for each in found for target in each}
    assert targets == {*(kernel.target for kernel in KERNELS), *PROGRAM_ONLY}
    assert all(kernel.reference(PLAIN) and kernel.serves for kernel in KERNELS)


def test_the_number_of_threads_is_checked() -> None:
    assert load_backend("native", threads=1).name == "native"
    assert library.threads() == 1
    with pytest.raises(RequestError, match="1 or more"):
        load_backend("native", threads=0)
    with pytest.raises(RequestError, match="leaves the number of threads"):
        load_backend("numpy", threads=2)


def test_without_the_library_plain_jax_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "EXTENSION_SUFFIXES", [".missing"])
    library.load_library.cache_clear()
    try:
        assert load_backend().name == "jax"
        with pytest.raises(RequestError, match="no working C\\+\\+17 compiler"):
            load_backend("native")
        assert "not built" in (why_not("native") or "")
    finally:
        library.load_library.cache_clear()
        monkeypatch.undo()
    assert load_backend().name == "native"


def test_weights_stay_where_they_are() -> None:
    """The kernels read the memory that they are given; its bytes count as the model's."""
    matrix = random(8, 16)
    weight = held(plain(matrix))
    assert held_bytes(weight) == matrix.nbytes
    x = random(1, 16)
    before = product(x, weight)
    matrix *= 2
    assert (product(x, weight) == 2 * before).all()


def test_a_package_is_read_in_place() -> None:
    package = Package.open(GOLDEN / "llama-mlx-4bit-g64/engine")
    read: list[str] = []

    class Watched(Package):
        def read(self, name: str) -> np.ndarray:
            read.append(name)
            return super().read(name)

    watched = Watched(**vars(package))
    load_model(watched, backend=NATIVE)
    matrices = {f"{path}.{suffix}" for path in package.formats for suffix in ("weights", "scales")}
    assert read
    assert not matrices & set(read)
