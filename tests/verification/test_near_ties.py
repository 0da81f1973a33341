"""Routers that can hardly decide: such tokens are seen, left out, counted, and bounded."""

from pathlib import Path

import numpy as np
import pytest
from golden import GOLDEN

import masu
from masu.planning import plan
from masu.verdict import PlanSource
from masu.verification import judge, transformers_model
from masu.verification.near_ties import NEAR, WatchingBackend, too_many
from masu.verification.staged import own_trace
from masu.verification.trace import Trace
from masu.verification.walk import walk

SCORES = np.array([[0.0, 1.0, 2.0, 3.0], [0.0, 2.0 - 1e-6, 2.0, 3.0], [3.0, 2.0, 0.0, -np.inf]])


def test_a_near_tie_is_between_the_last_chosen_and_the_first_refused() -> None:
    backend = WatchingBackend()
    assert backend.largest(SCORES, 2).tolist() == [[3, 2], [3, 2], [0, 1]]
    assert backend.near is not None
    assert backend.near.tolist() == [False, True, False]
    backend.reset()
    backend.largest(SCORES, 1)  # the same two scores, both refused
    assert backend.near is not None
    assert not backend.near.any()


def test_what_was_ruled_out_is_never_near() -> None:
    backend = WatchingBackend()
    backend.largest(SCORES[2:], 3)
    assert backend.near is not None
    assert not backend.near.any()


def test_few_tokens_may_be_left_out_and_many_not() -> None:
    assert not too_many(1, 3)
    assert not too_many(10, 100)
    assert too_many(12, 100)


def mixture() -> tuple[PlanSource, Trace]:
    source = PlanSource.of(plan(GOLDEN / "mixtral" / "hf").conversion, exact=True)
    trace, _ = own_trace(source, np.arange(5, 45))
    return source, trace


def test_a_token_that_went_to_other_experts_fails_unless_its_router_was_near_a_tie(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One row of one block as another expert would have made it."""
    source, trace = mixture()
    made = [rows.copy() for rows in trace.made]
    made[1][7] += 0.5
    flipped = Trace(trace.ids, trace.given, made, trace.logits)
    found = walk(source, [flipped])
    assert found.diverging is not None
    assert found.diverging.block == "decoder.transformer.layers.1"
    largest = WatchingBackend.largest

    def undecided(backend: WatchingBackend, values: np.ndarray, count: int) -> np.ndarray:
        places = largest(backend, values, count)
        backend.near = np.arange(len(values)) == 7
        return places

    monkeypatch.setattr(WatchingBackend, "largest", undecided)
    found = walk(source, [flipped])
    assert found.diverging is None
    assert found.left_out == len(made)
    assert NEAR < 1e-3


def test_without_transformers_the_verdict_is_consistent_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformers_model, "is_installed", lambda: False)
    planned = plan(GOLDEN / "llama-tied" / "hf")
    masu.convert(GOLDEN / "llama-tied" / "hf", tmp_path / "package", verify=False)
    verdict = judge.judge(tmp_path / "package", planned.conversion, planned.checkpoint)
    assert (verdict.level, verdict.passed) == ("consistent", True)
    assert verdict.reason is not None
    assert "masu[verify]" in verdict.reason
