"""However a sequence is cut into steps, taken back or forked, it gives the same logits.

Steps of different sizes are different programs that sum in another order: float32 logits may
differ by a few 1e-5 of their standard deviation (measured: 2e-5).
"""

import numpy as np
import pytest
from golden import GOLDEN
from shared_backends import shared_backend
from tensor_sources import Random, edited, layers_of

from masu.runtime.blocks.attention import KVCache
from masu.runtime.model import PREFILL, Decoder, load_model
from masu.runtime.reference import reference_logits
from masu.runtime.state import SMALLEST_CAPACITY, bucket
from masu.specs.errors import RequestError
from masu.specs.package import Package

TOLERANCE = 5e-5
CASES = ["gemma2", "gemma4-full-rotary", "muse_glimmer"]
"""Windows and caps; shared caches and per-layer embeddings; windows, gates and NoPE."""


def golden_model(case: str = "llama", backend: str = "jax") -> Decoder:
    package = Package.open(GOLDEN / case / "engine")
    dtype = "float32" if backend == "jax" else None
    return load_model(package, dtype=dtype, backend=shared_backend(backend))


def golden_ids(case: str = "llama") -> np.ndarray:
    return np.load(GOLDEN / case / "reference.npz")["input_ids_1"]


def distance(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(found - wanted).max() / wanted.std())


@pytest.mark.parametrize("backend", ["jax", "numpy"])
@pytest.mark.parametrize("case", CASES)
def test_steps_of_any_size(case: str, backend: str) -> None:
    model, ids = golden_model(case, backend), golden_ids(case)
    whole, state = model.logits(ids), model.start(len(ids))
    parts = []
    for chunk in np.split(ids, [1, 8, 9, 10, 45, 78, 79]):
        logits, state = model.advance(state, chunk)
        parts.append(logits)
    assert distance(np.concatenate(parts), whole) < TOLERANCE


@pytest.mark.parametrize("case", CASES)
def test_token_by_token(case: str) -> None:
    model, ids = golden_model(case), golden_ids(case)
    state, rows = model.start(len(ids)), []
    for token in ids:
        row, state = model.last_logits(state, [token])
        rows.append(row)
    assert distance(np.stack(rows), model.logits(ids)) < TOLERANCE


def test_last_logits_are_the_last_row() -> None:
    model, ids = golden_model(), golden_ids()
    for length in (1, PREFILL - 1, PREFILL, PREFILL + 1, len(ids)):
        row, state = model.last_logits(model.start(len(ids)), ids[:length])
        assert row.shape == (320,)
        assert state.position == length
        assert distance(row, model.logits(ids)[length - 1]) < TOLERANCE


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_growing_changes_nothing(backend: str) -> None:
    """Prompt, steps over the first boundary, a chunk over the second, against no cache at all."""
    source = Random(Package.open(GOLDEN / "mistral/engine").config)
    model = load_model(source, dtype="float64" if backend == "numpy" else "float32",
                       backend=shared_backend(backend))  # fmt: skip
    length = 2 * SMALLEST_CAPACITY
    ids = np.random.default_rng(1).integers(0, 320, length)
    cuts = [250, *range(251, 260), 460, 511]
    state, parts = model.start(length), []
    for chunk in np.split(ids, cuts):
        logits, state = model.advance(state, chunk)
        parts.append(logits)
    assert state.capacity == 2 * SMALLEST_CAPACITY
    assert distance(np.concatenate(parts), reference_logits(source, ids)) < 1e-4


def test_buckets_are_powers_of_two() -> None:
    assert [bucket(n) for n in (1, 256, 257, 512, 513, 5000)] == [256, 256, 512, 512, 1024, 8192]


@pytest.mark.parametrize("kept", [0, 1, 4, 9, range(4)])
def test_accept_is_as_if_only_those_had_run(kept: int | range) -> None:
    model, ids = golden_model("gemma2"), golden_ids("gemma2")
    count = kept if isinstance(kept, int) else len(kept)
    _, state = model.advance(model.start(80), ids[:20])
    _, state = model.advance(state, [*ids[20 : 20 + count], *([7] * (9 - count))])
    state = state.accept(kept)
    assert state.position == 20 + count
    logits, _ = model.advance(state, ids[20 + count : 40])
    assert distance(logits, model.logits(ids)[20 + count : 40]) < TOLERANCE


def test_what_was_taken_back_leaves_no_trace() -> None:
    """Not even as NaN, which a weight of zero would not remove."""
    model, ids = golden_model("gemma2"), golden_ids("gemma2")
    _, state = model.advance(model.start(80), ids[:20])
    _, state = model.advance(state, ids[20:29])
    state = state.accept(3)
    clean = model.fork(state)
    state.layers = tuple(
        KVCache(*(buffer.at[:, 23:].set(np.nan) for buffer in cache)) for cache in state.layers
    )
    poisoned, _ = model.last_logits(state, ids[23:24])
    wanted, _ = model.last_logits(clean, ids[23:24])
    assert np.array_equal(poisoned, wanted)


@pytest.mark.parametrize("kept", [0, 1, 30])
def test_rewind_is_as_if_only_those_had_run(kept: int) -> None:
    """Over several steps back, unlike `accept`, and with what was run since poisoned."""
    model, ids = golden_model("gemma2"), golden_ids("gemma2")
    state = model.start(80)
    for step in (ids[:30], ids[30:31], [7] * 29):
        _, state = model.advance(state, step)
    state = model.rewind(state, kept)
    assert (state.position, state.base) == (kept, kept)
    state.layers = tuple(
        KVCache(*(buffer.at[:, kept:].set(np.nan) for buffer in cache)) for cache in state.layers
    )
    logits, _ = model.advance(state, ids[kept:40])
    assert distance(logits, model.logits(ids)[kept:40]) < TOLERANCE


def test_rewind_refuses_what_did_not_run() -> None:
    model, ids = golden_model(), golden_ids()
    _, state = model.advance(model.start(80), ids[:20])
    with pytest.raises(RequestError, match="cannot go back to 21 of 20 tokens"):
        model.rewind(state, 21)
    model.rewind(state, 20)
    with pytest.raises(RequestError, match="given up"):
        model.rewind(state, 20)
    model.rewinds = False
    with pytest.raises(RequestError, match="cannot go back"):
        model.rewind(model.start(8), 0)


def test_accept_refuses_what_did_not_run() -> None:
    model, ids = golden_model(), golden_ids()
    _, state = model.advance(model.start(80), ids[:20])
    _, state = model.advance(state, ids[20:24])
    with pytest.raises(RequestError, match="cannot keep 5 of the last 4"):
        state.accept(5)
    with pytest.raises(RequestError, match=r"tree of candidates cannot be run yet: path \[0, 2\]"):
        state.accept([0, 2])
    state = state.accept(2)
    with pytest.raises(RequestError, match="cannot keep 3 of the last 2"):
        state.accept(3)


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_fork_goes_on_twice(backend: str) -> None:
    model, ids = golden_model(backend=backend), golden_ids()
    _, state = model.advance(model.start(80), ids[:20])
    other = model.fork(state)
    first, _ = model.advance(state, ids[20:30])
    model.advance(model.fork(other), [9] * 10)
    second, _ = model.advance(other, ids[20:30])
    assert np.array_equal(first, second)


def test_a_state_is_used_once() -> None:
    model = golden_model()
    state = model.start(10)
    model.advance(state, [1])
    for use in (lambda: model.advance(state, [1]), lambda: state.accept(0),
                lambda: model.fork(state)):  # fmt: skip
        with pytest.raises(RequestError, match="given up to an earlier step"):
            use()


def test_a_refused_request_leaves_the_state_usable() -> None:
    model = golden_model()
    state = model.start(4)
    for ids, message in [
        ([], "no token ids"),
        ([1, 320], "token id 320 at place 1 is outside the vocabulary of 320"),
        ([-1], "token id -1"),
        ([0.5], "one row of integers, found float64"),
        ([[1]], "one row of integers"),
        ([1] * 5, "5 tokens are more than the 4"),
    ]:
        with pytest.raises(RequestError, match=message):
            model.advance(state, ids)
    model.advance(state, [1, 2, 3, 4])


def test_a_run_is_no_longer_than_the_context() -> None:
    model = golden_model()
    assert model.context_length == 512
    model.start(512)
    for length in (0, 513):
        with pytest.raises(RequestError, match=f"at least 1 and at most 512 tokens, not {length}"):
            model.start(length)


def test_a_shared_cache_follows_its_source() -> None:
    """Layers 2 and 3 read the caches of 0 and 1: whole, in steps, and against the reference."""

    def share(decoder: dict) -> None:
        for layer, source in zip(layers_of(decoder)[2:], (0, 1), strict=True):
            layer["kv_source_layer_index"] = source
            layer["mixer_config"]["is_kv_sharing"] = True

    source = Random(edited(Package.open(GOLDEN / "gemma2/engine").config, share))
    model = load_model(source, dtype="float32", backend=shared_backend("jax"))
    ids = golden_ids("gemma2")
    _, state = model.advance(model.start(80), ids[:30])
    rest, state = model.advance(state, ids[30:])
    assert [kept is None for kept in state.layers] == [False, False, True, True]
    wanted = reference_logits(source, ids)
    assert distance(rest, wanted[30:]) < 1e-4
