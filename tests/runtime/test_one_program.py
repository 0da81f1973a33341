"""A step of one row as a program of kernels: the same bits as XLA's, or a reason why not."""

import json
import logging
import weakref
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from golden import ENGINE_CASES, GOLDEN

from masu.runtime.model import PREFILL, Decoder, load_model
from masu.runtime.state import State
from masu.specs.package import Package

native = pytest.importorskip("masu.runtime.backends.native.native_backend")
try:
    BACKEND = native.NativeBackend()
except ImportError as missing:
    pytest.skip(str(missing), allow_module_level=True)

from masu.runtime.backends.native import in_one  # noqa: E402
from masu.runtime.backends.native.arena import Life, placed  # noqa: E402
from masu.runtime.backends.native.in_one import InOne  # noqa: E402
from masu.runtime.backends.native.lowering import ARITHMETIC, Unsupported, lower  # noqa: E402

BIT_BY_BIT = (
    *("llama-mlx-4bit-g64", "gemma3-text", "qwen3", "lfm2", "qwen3_5", "llama-rht-all"),
    *("qwen3_5_moe", "llama-other-specs"),
)
"""Every kind of layer and of weights; the others are alike."""


def is_language_model(name: str) -> bool:
    config = json.loads((GOLDEN / name / "engine/config.json").read_text(encoding="utf-8"))
    return config["type"] == "LanguageModelConfig"


LANGUAGE_MODELS = [name for name in ENGINE_CASES if is_language_model(name)]


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
@pytest.mark.parametrize("name", BIT_BY_BIT)
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


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_every_golden_model_is_a_program(name: str) -> None:
    decoder = loaded(name)
    row, _ = decoder.last_logits(decoder.start(8), [3])
    assert reason(decoder) is None
    assert np.isfinite(row).any()


def test_what_cannot_be_a_program_says_why() -> None:
    whole = InOne(lambda x, states: (jax.numpy.sin(x), states))
    result, _ = whole(jax.device_put(ROWS), ())
    np.testing.assert_array_equal(result, jax.numpy.sin(ROWS))
    assert whole.reason == "the operation sin"


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
    "uint32": lambda x: (x.astype(np.int32) + 1).astype(np.uint32),
    "late": lambda x: jax.lax.dynamic_slice_in_dim(x, x[0, 0].astype(int), 2),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_no_kernel_does_is_refused(name: str) -> None:
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


def joined(*parts: Any, axis: int) -> Any:
    return jax.numpy.concatenate(parts, axis=axis)


MOVES = {
    "transposed": lambda x: x.T + 1,
    "transposed after a slice": lambda x: x[1:, 1:3].T,
    "some columns": lambda x: x[:, 1:3] + 1,
    "some rows, turned twice": lambda x: (x.T[1:3].T + 1)[2:],
    "every second": lambda x: x[::2, 1::3],
    "one row for all": lambda x: x + x[0],
    "one column for all": lambda x: x + x[:, 1:2],
    "parts": lambda x: sum(jax.numpy.split(x, 2, axis=1)),
    "rows after rows": lambda x: joined(x, x[:1] * 2, axis=0),
    "columns after columns": lambda x: joined(x[:, 3:], x, x[:, :2], axis=1),
    "a repeated value": lambda x: joined(x, jax.numpy.full((3, 1), x[1, 2]), axis=1),
    "a repeated value in a kernel": lambda x: BACKEND.sigmoid(jax.numpy.full((2, 3), x[1, 2])),
    "nothing but a repeated value": lambda x: jax.numpy.full((2, 3), x[1, 2]),
    "a constant": lambda x: x + np.arange(12, dtype=x.dtype).reshape(4, 3).T,
    "part of a constant": lambda x: joined(x, np.ones((3, 4), x.dtype)[:, 1:3], axis=1),
    "used again much later": lambda x: (x + 1) * 2 - (x + 1).T.T * (x.T - 1).T,
    "whether": lambda x: joined(x > 5, x < 2, axis=0),
}


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", MOVES)
def test_values_are_moved(name: str, dtype: Any) -> None:
    rows = ROWS.astype(dtype)
    wanted = np.asarray(jax.jit(MOVES[name])(rows))
    found = run_program(MOVES[name], rows)
    assert found.shape == wanted.shape
    assert found.tobytes() == wanted.tobytes()


def test_results_that_live_at_once_do_not_meet() -> None:
    random = np.random.default_rng(5)
    first, length, size = random.integers(0, 60, 200), random.integers(0, 9, 200), 37 * 64
    lives = {
        name: Life(int(start), int(start + more), int(random.integers(0, size)))
        for name, (start, more) in enumerate(zip(first, length, strict=True))
    }
    offsets, total = placed(lives)
    for call in range(70):
        held = np.zeros(total, int)
        for name, life in lives.items():
            if life.first <= call <= life.last:
                held[offsets[name] : offsets[name] + life.size] += 1
        assert held.max(initial=0) <= 1
    assert total < sum(life.size for life in lives.values()) / 3


def test_results_share_their_memory() -> None:
    """Each result of a chain is read by the next one only."""

    def chain(x: Any) -> Any:
        for step in range(20):
            x = x * 0.5 + float(step)
        return x

    assert lowered(chain, ROWS).arena <= 3 * 64 * -(-ROWS.nbytes // 64)
    assert run_program(chain, ROWS).tobytes() == np.asarray(jax.jit(chain)(ROWS)).tobytes()


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


def alike(left: Any, right: Any) -> bool:
    pairs = zip(*map(jax.tree_util.tree_leaves, (left, right)), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


@pytest.mark.parametrize("name", [*BIT_BY_BIT, "gpt_oss", "llamba"])
def test_a_step_of_many_rows_has_the_same_bits(name: str) -> None:
    decoder = loaded(name)
    ids, places = np.arange(3, 12, dtype=np.int32), (np.int32(0), np.int32(9))
    empty = decoder.start(64)
    padded = np.pad(ids, (0, PREFILL - len(ids)))
    x, layers = decoder._many_rows(padded, *places, empty.rotations, empty.layers)
    row, _ = decoder._exit_row(np.asarray(x)[8:9], ())
    found, state = decoder.last_logits(decoder.start(64), ids)
    np.testing.assert_array_equal(found, np.asarray(row))
    assert alike(state.layers, layers)
    for step in (decoder._run_many[PREFILL], decoder._run_exit):
        assert isinstance(step, InOne)
        assert step.reason is None


def test_nothing_is_compiled_by_xla(caplog: pytest.LogCaptureFixture) -> None:
    """A process that answers never loads XLA's compiler."""
    decoder = load_model(
        Package.open(GOLDEN / "gemma3-text/engine"), backend=native.NativeBackend()
    )
    with caplog.at_level(logging.WARNING, "jax"), jax.log_compiles():
        _, state = decoder.last_logits(decoder.start(400), [3] * 300)
        decoder.last_logits(state, [5])
    assert not [text for text in caplog.messages if text.startswith("Compiling ")]


def test_programs_keep_no_caches() -> None:
    decoder = loaded("llama-mlx-4bit-g64")
    _, state = decoder.last_logits(started(decoder), [5])
    caches = [weakref.ref(leaf) for leaf in jax.tree_util.tree_leaves(state.layers)]
    assert caches
    del state
    assert not [each for each in caches if each() is not None]


def test_a_program_is_made_once_for_each_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, made = loaded("llama-mlx-4bit-g64"), []
    monkeypatch.setattr(in_one, "lower", lambda traced: made.append(1) or lower(traced))

    def turn() -> None:
        _, state = decoder.last_logits(decoder.start(300), [3] * 100)
        _, state = decoder.last_logits(state, [3] * 180)
        decoder.last_logits(state, [5])

    turn()
    assert made
    made.clear()
    turn()
    assert not made
