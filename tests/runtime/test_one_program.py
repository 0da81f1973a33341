"""A step of one row as a program of kernels: the same bits as XLA's, or a reason why not."""

from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from golden import GOLDEN

from masu.runtime.model import Decoder, load_model
from masu.runtime.state import State
from masu.specs.package import Package

native = pytest.importorskip("masu.runtime.backends.native.native_backend")
try:
    BACKEND = native.NativeBackend()
except ImportError as missing:
    pytest.skip(str(missing), allow_module_level=True)

from masu.runtime.backends.native.in_one import InOne  # noqa: E402
from masu.runtime.backends.native.lowering import ARITHMETIC, Unsupported, lower  # noqa: E402

WITH_PROGRAM = ("llama-mlx-4bit-g64", "gemma3-text", "qwen3", "lfm2", "qwen3_5", "llama-rht-all")
WITHOUT = {"llama-other-specs": "transposition"}


def loaded(name: str, dtype: str | None = None) -> Decoder:
    return load_model(Package.open(GOLDEN / name / "engine"), dtype=dtype, backend=BACKEND)


def started(decoder: Decoder, count: int = 9) -> State:
    state = decoder.start(64)
    return decoder.last_logits(state, list(range(3, 3 + count)))[1]


def by_xla(decoder: Decoder, state: State, token: int) -> np.ndarray:
    """The step as it is without a program."""
    position = state.position
    ids, places = np.array([token], np.int32), (np.int32(position), np.int32(position + 1))
    row, state.layers = decoder._one_row(ids, *places, state.rotations, state.layers)
    state.position += 1
    return np.asarray(row)


def reason(decoder: Decoder) -> str | None:
    assert isinstance(decoder._run_one, InOne)
    return decoder._run_one.reason


@pytest.mark.parametrize("dtype", [None, "float32"])
@pytest.mark.parametrize("name", WITH_PROGRAM)
def test_steps_have_the_same_bits(name: str, dtype: str | None) -> None:
    decoder = loaded(name, dtype)
    state = started(decoder)
    ours, theirs = decoder.fork(state), decoder.fork(state)
    for token in (5, 6, 7):
        found, ours = decoder.last_logits(ours, [token])
        np.testing.assert_array_equal(found, by_xla(decoder, theirs, token))
    leaves = map(jax.tree_util.tree_leaves, (ours.layers, theirs.layers))
    for left, right in zip(*leaves, strict=True):
        assert np.asarray(left).tobytes() == np.asarray(right).tobytes()
    assert reason(decoder) is None


@pytest.mark.parametrize("name", WITHOUT)
def test_what_cannot_be_a_program_says_why(name: str) -> None:
    decoder = loaded(name)
    state = started(decoder)
    twin = decoder.fork(state)
    found, _ = decoder.last_logits(state, [5])
    np.testing.assert_array_equal(found, by_xla(decoder, twin, 5))
    assert WITHOUT[name] in str(reason(decoder))


def test_states_do_not_meet() -> None:
    """Two runs take turns, and a fork keeps what it was."""
    decoder = loaded("llama-mlx-4bit-g64")
    first = started(decoder)
    second, alone = decoder.fork(first), decoder.fork(first)
    expected, _ = decoder.last_logits(alone, [5])
    _, first = decoder.last_logits(first, [9])
    _, first = decoder.last_logits(first, [9])
    found, second = decoder.last_logits(second, [5])
    np.testing.assert_array_equal(found, expected)


def test_a_run_outgrows_its_caches() -> None:
    decoder = loaded("llama-mlx-4bit-g64")
    state = decoder.start(300)
    _, state = decoder.last_logits(state, [3] * 255)
    for token in (4, 5, 6):  # 256 rows are full with the first of them
        row, state = decoder.last_logits(state, [token])
    whole = decoder.logits([*[3] * 255, 4, 5, 6])
    np.testing.assert_array_equal(row, whole[-1])


def lowered(function: Any, *arguments: Any) -> Any:
    return lower(jax.make_jaxpr(function)(*arguments))


ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)

UNSUPPORTED = {
    "sin": lambda x: jax.numpy.sin(x),
    "transposition": lambda x: x.T + 1,
    "several rows": lambda x: x[:, :2] + 1,
    "different sizes": lambda x: x + x[0],
    "uint32": lambda x: (x.astype(np.int32) + 1).astype(np.uint32),
    "late": lambda x: jax.lax.dynamic_slice_in_dim(x, x[0, 0].astype(int), 2),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_moves_data_is_refused(name: str) -> None:
    with pytest.raises(Unsupported):
        lowered(UNSUPPORTED[name], ROWS)


def test_an_array_is_not_read_after_it_was_written_over() -> None:
    def function(buffer: Any, rows: Any) -> Any:
        after = BACKEND.write(buffer, rows, np.int32(0))
        return buffer + after

    with pytest.raises(Unsupported, match="written over"):
        lowered(function, np.zeros((1, 4, 2), np.float32), np.ones((1, 1, 2), np.float32))


def test_nor_is_a_view_of_it() -> None:
    def function(buffer: Any, rows: Any) -> Any:
        before = buffer[:, :2]
        after = BACKEND.write(buffer, rows, np.int32(0))
        return before + after[:, :2]

    with pytest.raises(Unsupported, match="written over"):
        lowered(function, np.zeros((1, 4, 2), np.float32), np.ones((1, 1, 2), np.float32))


def run_program(function: Any, *arguments: Any) -> np.ndarray:
    """A function of arrays and of no states, as a program."""
    whole = InOne(lambda *given: (function(*given[:-1]), given[-1]))
    result, _ = whole(*map(jax.device_put, arguments), ())
    assert whole.reason is None
    return np.asarray(result)


DTYPES = (np.float32, ml_dtypes.bfloat16, np.float16)
PAIRS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "max": lambda a, b: jax.numpy.maximum(a, b),
    "min": lambda a, b: jax.numpy.minimum(a, b),
    "neg": lambda a, b: -a + b,
    "abs": lambda a, b: abs(a) + b,
    "select_n": lambda a, b: jax.numpy.where(a > b, a, b),
    "ge": lambda a, b: (a >= b).astype(a.dtype),
    "le": lambda a, b: (a <= b).astype(a.dtype),
    "lt": lambda a, b: (a < b).astype(a.dtype),
    "eq": lambda a, b: (a == b).astype(a.dtype),
    "gt": lambda a, b: (a > b).astype(a.dtype),
    "convert_element_type": lambda a, b: (a.astype(np.float32) * 3.1).astype(b.dtype),
}  # fmt: skip


def test_every_operation_is_tried() -> None:
    assert set(PAIRS) == set(ARITHMETIC)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PAIRS)
def test_arithmetic_rounds_as_xla_does(name: str, dtype: Any) -> None:
    random = np.random.default_rng(3)
    scale = 2.0 ** random.integers(-8, 8, (2, 1, 300))
    left, right = (random.standard_normal((2, 1, 300)) * scale).astype(dtype)
    right[0, :40] = left[0, :40]
    exact = {"xla_allow_excess_precision": False}
    wanted = jax.jit(PAIRS[name], compiler_options=exact)(left, right)
    assert run_program(PAIRS[name], left, right).tobytes() == np.asarray(wanted).tobytes()
