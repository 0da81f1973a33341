"""The chunked recurrences against their definition, token by token and head by head.

In float64 the two agree to 1e-12, in float32 to a few roundings of a sum over a chunk (1e-5).
"""

from typing import Any

import numpy as np
import pytest
from shared_backends import shared_backend

from masu.runtime.backend import Backend
from masu.runtime.recurrence import CHUNK, decays_between, inverse_of_unit_lower

HEADS, GROUPS, KEY, VALUE = 6, 2, 5, 3
Inputs = dict[str, Any]

pytestmark = pytest.mark.parametrize("name", ["numpy", "jax"])


def dtype_of(name: str) -> np.dtype:
    return np.dtype("float64" if name == "numpy" else "float32")


def bound(name: str) -> float:
    return 1e-12 if name == "numpy" else 1e-5


def inputs(tokens: int, *, delta_rule: bool) -> Inputs:
    """Random rows: keys of length 1, decays from none to nearly all, `beta` within 0 and 1."""
    random = np.random.default_rng(tokens)
    keys = random.standard_normal((tokens, GROUPS, KEY))
    return {
        "queries": random.standard_normal((tokens, GROUPS, KEY)),
        "keys": keys / np.linalg.norm(keys, axis=-1, keepdims=True),
        "values": random.standard_normal((tokens, HEADS, VALUE)),
        "log_decay": -(random.standard_normal((tokens, HEADS)) ** 4),
        "beta": random.uniform(0, 1, (tokens, HEADS)) if delta_rule else None,
        "state": random.standard_normal((HEADS, KEY, VALUE)),
    }


def by_definition(
    queries: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    log_decay: np.ndarray,
    beta: np.ndarray | None,
    state: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    state, out = state.copy(), np.empty(values.shape)
    for token in range(len(values)):
        for head in range(HEADS):
            group = head * GROUPS // HEADS
            key = keys[token, group]
            state[head] *= np.exp(log_decay[token, head])
            update = values[token, head]
            if beta is not None:
                update = beta[token, head] * (update - key @ state[head])
            state[head] += np.outer(key, update)
            out[token, head] = queries[token, group] @ state[head]
    return out, state


def _recur(backend: Backend, config: None, *arrays: Any) -> Any:
    return backend.recur(*arrays)


def _inverse(backend: Backend, config: None, system: Any) -> Any:
    return inverse_of_unit_lower(backend, system)


def run(backend: Backend, given: Inputs, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    arrays = [None if x is None else backend.array(x.astype(dtype)) for x in given.values()]
    out, state = backend.compile(_recur, None)(*arrays)
    return backend.to_numpy(out), backend.to_numpy(state)


@pytest.mark.parametrize("delta_rule", [True, False])
@pytest.mark.parametrize("tokens", [1, 3, CHUNK, CHUNK + 5])
def test_chunks_are_the_recurrence(name: str, tokens: int, delta_rule: bool) -> None:
    given = inputs(tokens, delta_rule=delta_rule)
    out, state = run(shared_backend(name), given, dtype_of(name))
    wanted_out, wanted_state = by_definition(**given)
    assert np.abs(out - wanted_out).max() < bound(name)
    assert np.abs(state - wanted_state).max() < bound(name)


@pytest.mark.parametrize("delta_rule", [True, False])
def test_one_strong_decay_does_not_drown_the_later_ones(name: str, delta_rule: bool) -> None:
    """Differences of running sums would: float32 has steps of 0.06 at a million."""
    given = inputs(CHUNK, delta_rule=delta_rule)
    given["log_decay"][3] = -1e6
    out, state = run(shared_backend(name), given, dtype_of(name))
    wanted_out, wanted_state = by_definition(**given)
    assert np.abs(out - wanted_out).max() < bound(name)
    assert np.abs(state - wanted_state).max() < bound(name)


def test_one_key_all_the_time(name: str) -> None:
    """The hardest triangular system: all ones, whose powers grow past any float."""
    given = inputs(CHUNK, delta_rule=True)
    given["keys"][:] = given["keys"][0]
    given["log_decay"][:] = 0
    given["beta"][:] = 1
    out, state = run(shared_backend(name), given, dtype_of(name))
    wanted_out, wanted_state = by_definition(**given)
    assert np.abs(out - wanted_out).max() < bound(name)
    assert np.abs(state - wanted_state).max() < bound(name)


def test_tokens_without_decay_and_update_leave_every_bit(name: str) -> None:
    given = inputs(CHUNK, delta_rule=True)
    given["log_decay"][:], given["beta"][:] = 0, 0
    _, state = run(shared_backend(name), given, dtype_of(name))
    assert np.array_equal(state, given["state"].astype(dtype_of(name)))


def test_decays_between_rows(name: str) -> None:
    steps = -np.arange(1.0, 9).reshape(1, 8) / 10
    backend = shared_backend(name)
    found = backend.to_numpy(decays_between(backend, backend.array(steps.astype(dtype_of(name)))))
    wanted = [[np.exp(steps[0, j + 1 : i + 1].sum()) if i >= j else 0 for j in range(8)]
              for i in range(8)]  # fmt: skip
    assert np.abs(found[0] - wanted).max() < bound(name)


@pytest.mark.parametrize("rows", [1, 2, 8, 64])
def test_inverse_of_a_triangle(name: str, rows: int) -> None:
    system = np.random.default_rng(rows).standard_normal((3, rows, rows)) / 4
    backend = shared_backend(name)
    given = backend.array(system.astype(dtype_of(name)))
    found = backend.to_numpy(backend.compile(_inverse, None)(given))
    wanted = np.linalg.inv(np.tril(system, -1) + np.eye(rows))
    assert np.abs(found - wanted).max() < bound(name) * np.abs(wanted).max()


@pytest.mark.parametrize("filled", [0, 1, 2, 5])
@pytest.mark.parametrize("taps", [1, 2, 4])
def test_causal_convolution(name: str, taps: int, filled: int) -> None:
    """Tap 0 meets the oldest row; the history ends with the last row that is no padding."""
    random = np.random.default_rng(taps)
    x, history = random.standard_normal((5, 3)), random.standard_normal((taps - 1, 3))
    weights, biases = random.standard_normal((3, taps)), random.standard_normal(3)
    backend, dtype = shared_backend(name), dtype_of(name)
    found = backend.causal_conv(
        *(backend.array(each.astype(dtype)) for each in (x, history, weights, biases)),
        filled=np.int32(filled),
    )
    out, after = map(backend.to_numpy, found)
    rows = np.concatenate([history, x])
    for token in range(5):
        for channel in range(3):
            wanted = biases[channel] + sum(
                weights[channel, tap] * rows[token + tap, channel] for tap in range(taps)
            )
            assert abs(out[token, channel] - wanted) < bound(name)
    assert np.array_equal(after, rows[filled : filled + taps - 1].astype(dtype))
