"""A run of any length compiles two programs for each capacity: a prefill step, a one-token step."""

import logging

import jax
import numpy as np
import pytest
from golden import GOLDEN
from tensor_sources import Random, edited, layers_of

from masu.runtime.backends.jax import JaxBackend
from masu.runtime.model import PREFILL, Decoder, load_model
from masu.runtime.state import SMALLEST_CAPACITY
from masu.specs.package import Package

BUCKETS = 3


def different_ropes(decoder: dict) -> None:
    for index, each in enumerate(layers_of(decoder)):
        each["rope_config"]["base"] = 1e4 * (1 + index)
        each["rope_config"]["max_sequence_length"] = SMALLEST_CAPACITY << BUCKETS


@pytest.fixture
def model() -> Decoder:
    """Three layers that differ in their ropes only, on a backend that has compiled nothing."""
    config = edited(Package.open(GOLDEN / "llama-tied/engine").config, different_ropes)
    return load_model(Random(config), dtype="float32", backend=JaxBackend())


def compilations(caplog: pytest.LogCaptureFixture) -> int:
    """Of JAX, whatever is compiled: our programs, and operations outside of them."""
    return sum(record.getMessage().startswith("Compiling ") for record in caplog.records)


def test_two_programs_for_each_bucket(model: Decoder, caplog: pytest.LogCaptureFixture) -> None:
    state = model.start(SMALLEST_CAPACITY << BUCKETS)
    expected = {"decoder.enter": 2, "decoder.leave_row": 1}
    with caplog.at_level(logging.WARNING, "jax"), jax.log_compiles():
        for number in range(BUCKETS):
            capacity = SMALLEST_CAPACITY << number
            # Odd sizes up to the end of the bucket, and steps of one in between.
            for length in (5, 1, PREFILL, 1, PREFILL - 1, 2, 1):
                _, state = model.last_logits(state, [3] * length)
            rest = np.full(capacity - state.position, 3)
            _, state = model.last_logits(state, rest)
            assert state.capacity == capacity
            expected["layer.apply"] = 2 * (number + 1)
            assert model.backend.compiled_programs() == expected
            assert compilations(caplog) == sum(expected.values())


def test_a_run_that_goes_back_or_begins_anew_compiles_nothing(
    model: Decoder, caplog: pytest.LogCaptureFixture
) -> None:
    def turn() -> None:
        _, state = model.last_logits(model.start(300), [3] * 280)
        _, state = model.last_logits(state, [3])
        model.last_logits(model.rewind(state, 100), [3] * 5)

    turn()
    with caplog.at_level(logging.WARNING, "jax"), jax.log_compiles():
        turn()
    assert compilations(caplog) == 0


def test_what_only_interprets_compiles_nothing() -> None:
    model = load_model(Package.open(GOLDEN / "llama-tied/engine"), backend="numpy")
    model.logits([1, 2, 3])
    assert model.backend.compiled_programs() == {}
