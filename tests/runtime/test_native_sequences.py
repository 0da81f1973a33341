"""Native filters and recurrences against float64, on every instruction set, and in any steps.

How a sequence is cut into steps changes no bit, neither here nor in a model.
"""

from typing import Any

import numpy as np
import pytest
from golden import GOLDEN
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
from tensor_sources import Random, edited, layers_of

from masu.runtime.backends.native import library
from masu.runtime.loader import TensorSource
from masu.runtime.model import load_model
from masu.specs.package import Package

pytestmark = pytest.mark.usefixtures("kernel_settings")


FILTERS = [(1, 1, 2), (2, 15, 3), (5, 64, 4), (9, 81, 3), (3, 130, 1), (35, 20, 4)]


def filters(tokens: int, channels: int, taps: int, dtype: np.dtype, *, gated: bool) -> list[Any]:
    return [
        random(tokens, (3 if gated else 1) * channels, dtype=dtype),
        random(taps - 1, channels, dtype=dtype),
        random(channels, taps),
        random(channels) if taps % 2 else None,
        np.int32(tokens),
    ]


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16, FLOAT16])
def test_filters(name: str, gated: bool, dtype: np.dtype) -> None:
    """Strips are 64 channels and 16 tokens; the numpy backend rounds where the engine does."""
    use(name)
    operation = "gated_conv" if gated else "causal_conv"
    for tokens, channels, taps in FILTERS:
        operands = filters(tokens, channels, taps, dtype, gated=gated)
        found, kept = run(NATIVE, operation, *operands)
        wanted, history = PLAIN_OF[dtype](operation, operands)
        x = (
            np.abs(operands[0].astype(float)).max(),
            np.abs(operands[1].astype(float)).max(initial=0),
        )
        size = max(x) ** (3 if gated else 1) * np.abs(operands[2]).sum(1).max() + 4
        # Sums of at most five terms in float32, then perhaps one rounding to another neighbour.
        bound = 6 * UNIT * size + (2 * unit_of(dtype) * np.abs(wanted) if gated else 0.0)
        assert (np.abs(found.astype(float) - wanted) <= bound).all()
        assert (kept == history).all()
        assert found.dtype == (dtype if gated else FLOAT32)


def _rounded(dtype: np.dtype) -> Any:
    """The numpy backend, in float64 where nothing is rounded on the way, else in the dtype."""

    def run_plain(operation: str, operands: list[Any]) -> list[np.ndarray]:
        found = run(PLAIN, operation, *(wide(operands) if dtype == FLOAT32 else operands))
        return [found[0].astype(np.float64), found[1].astype(dtype)]

    return run_plain


PLAIN_OF = {dtype: _rounded(dtype) for dtype in (FLOAT32, BFLOAT16, FLOAT16)}


def test_void_rows_do_not_enter_a_history() -> None:
    x, history, weights, biases, _ = filters(6, 40, 4, BFLOAT16, gated=False)
    for filled in (0, 1, 2, 3, 6):
        stray = x.copy()
        stray[filled:] = np.nan
        found, kept = run(NATIVE, "causal_conv", stray, history, weights, biases, np.int32(filled))
        assert (kept == np.concatenate([history, x])[filled : filled + 3]).all()
        assert np.isfinite(found).all()


RECURRENCES = [(1, 1, 1, 1, 1), (2, 2, 1, 3, 31), (3, 6, 2, 16, 32), (5, 4, 4, 33, 40)]


def recurrence(
    tokens: int, heads: int, groups: int, keys: int, values: int, *, has_beta: bool
) -> list[Any]:
    """Keys of length 1, as the delta rule has them: its state then stays of the values' size."""
    directions = random(tokens, groups, keys)
    return [
        random(tokens + 1, groups, keys)[1:],
        directions / np.linalg.norm(directions, axis=-1, keepdims=True),
        random(tokens, heads, values),
        -np.abs(random(tokens, heads)),
        np.abs(np.sin(random(tokens, heads))) if has_beta else None,
        random(heads, keys, values),
    ]


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("has_beta", [False, True])
def test_recurrences(name: str, has_beta: bool) -> None:
    """Sums over keys in two parts, and the state's own roundings at every token."""
    use(name)
    for sizes in RECURRENCES:
        operands = recurrence(*sizes, has_beta=has_beta)
        for found, wanted in zip(
            run(NATIVE, "recur", *operands), run(PLAIN, "recur", *wide(operands)), strict=True
        ):
            size = np.sqrt(sizes[3]) * (np.abs(wanted).max() + sizes[0] + 4)
            assert np.abs(found - wanted).max() <= (sizes[3] / 2 + 4 * sizes[0] + 8) * UNIT * size


def in_steps(sizes: tuple[int, ...], operands: list[Any], *, padding: int = 0) -> list[bytes]:
    """A recurrence in steps of so many tokens, each with void rows behind; the bits it leaves."""
    *inputs, state = operands
    outputs, start = [], 0
    for size in sizes:
        rows = [None if x is None else x[start : start + size] for x in inputs]
        padded = [
            None if x is None else np.pad(x, [(0, padding), *[(0, 0)] * (x.ndim - 1)]) for x in rows
        ]
        out, state = run(NATIVE, "recur", *padded, state)
        outputs.append(out[:size])
        start += size
    return [np.concatenate(outputs).tobytes(), state.tobytes()]


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("has_beta", [False, True])
def test_steps_of_any_size_leave_the_same_state(name: str, has_beta: bool) -> None:
    use(name)
    operands = recurrence(12, 6, 2, 33, 40, has_beta=has_beta)
    operands[-1][0, :4, :4] = -0.0
    found = []
    for threads in (1, 2):
        library.set_threads(threads)
        found += [
            in_steps(sizes, operands) for sizes in [(12,), (1,) * 12, (5, 1, 6), (12,), (12,)]
        ]
        found.append(in_steps((5, 1, 6), operands, padding=3))
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("has_beta", [False, True])
def test_padding_keeps_every_state(name: str, has_beta: bool) -> None:
    """Infinite, NaN and negative zeros included; plain arithmetic would change all three."""
    use(name)
    operands = [
        None if x is None else np.zeros_like(x)
        for x in recurrence(3, 2, 1, 5, 40, has_beta=has_beta)
    ]
    state = random(2, 5, 40)
    state[0, 0, :3], state[1, 4, -1] = (np.inf, np.nan, -0.0), -np.inf
    operands[-1] = state
    assert run(NATIVE, "recur", *operands)[1].tobytes() == state.tobytes()


def defined(
    queries: Any, keys: Any, values: Any, log_decay: Any, beta: Any, state: Any
) -> list[np.ndarray]:
    """The definition, token by token: a state is read after it was written."""
    heads, out = values.shape[1], []
    for token, rows in enumerate(values):
        reads, writes = (np.repeat(x[token], heads // x.shape[1], axis=0) for x in (queries, keys))
        state = state * np.exp(log_decay[token])[:, None, None]
        if beta is not None:
            known = (writes[:, :, None] * state).sum(axis=1)
            rows = beta[token][:, None] * (rows - known)
        state = state + writes[:, :, None] * rows[:, None]
        out.append((reads[:, :, None] * state).sum(axis=1))
    return [np.stack(out), state]


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("has_beta", [False, True])
def test_what_is_not_finite_in_a_recurrence(name: str, has_beta: bool) -> None:
    """A column's values reach that column only, a head's decay that head."""
    use(name)
    poison = [(2, (1, 1, 3), np.nan), (2, (0, 0, 1), np.inf), (3, (0, 1), np.nan)]
    for place, index, value in [*poison, (5, (1, 2, 39), -np.inf), (0, (1, 0, 0), np.inf)]:
        operands = recurrence(2, 2, 1, 6, 40, has_beta=has_beta)
        operands[place][index] = value
        with np.errstate(invalid="ignore"):
            wanted = defined(*wide(operands))
        for found, each in zip(run(NATIVE, "recur", *operands), wanted, strict=True):
            assert all((kind(found) == kind(each)).all() for kind in CLASSES)


GENERAL_MAMBA2 = {
    "type": "GeneralMamba2Config",
    "in_projection_config": {},
    "out_projection_config": {},
    "conv_config": {"has_biases": True},
    "norm_config": {
        "epsilon": 1e-6,
        "scale_offset": None,
        "upcast_mode": "full_layer",
        "subtract_mean": False,
        "has_scale": True,
        "has_biases": False,
    },
    "norm_before_gate": False,
    "activation": {"type": "SiLU", "alpha": 1.0},
    "kernel_size": 4,
    "num_heads": 4,
    "num_groups": 2,
    "head_dim": 16,
    "state_dim": 8,
    "step_limits": [0.1, 3.0],
    "has_in_biases": True,
    "has_out_biases": True,
}


def general_mamba2() -> TensorSource:
    """Llamba with another mixer, whose norm is over each of two groups, and random numbers."""

    def exchange(decoder: dict) -> None:
        for layer in layers_of(decoder):
            layer["mixer_config"] = GENERAL_MAMBA2

    return Random(edited(Package.open(GOLDEN / "llamba" / "engine").config, exchange))


CASES = ["llama-mlx-4bit-g64", "GeneralMamba2", "lfm2-mlx-4bit", "qwen3_5-mlx-4bit"]
SLOW_CASES = ["gpt_oss", "llamba", "qwen3_5_moe"]


@pytest.mark.parametrize(
    "case", [*CASES, *(pytest.param(case, marks=pytest.mark.slow) for case in SLOW_CASES)]
)
def test_a_prompt_in_any_steps_leaves_the_same_bits(case: str) -> None:
    """Exact reuse, drafts and batching stand on this; recurrent mixers and experts included."""
    is_package = case != "GeneralMamba2"
    source = Package.open(GOLDEN / case / "engine") if is_package else general_mamba2()
    model = load_model(source, backend=NATIVE)
    ids = np.random.default_rng(3).integers(0, 30, 70)
    found = []
    for sizes in ([70], [1] * 70, [13, 1, 30, 26]):
        state, logits = model.start(80), np.empty(0)
        for ids_ in np.split(ids, np.cumsum(sizes)[:-1]):
            logits, state = model.last_logits(state, ids_)
        caches = [
            np.asarray(part)[:, :70].tobytes() if part.ndim == 3 and part.shape[1] >= 70 else
            np.asarray(part).tobytes()
            for layer in state.layers
            for part in layer
        ]  # fmt: skip
        found.append((logits.tobytes(), *caches))
    assert found[0] == found[1] == found[2]
