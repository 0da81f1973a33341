"""Routing, on every backend, against loops over tokens that follow the papers' definitions."""

import math

import numpy as np
import pytest
from shared_backends import shared_backend

from masu.runtime.backends import backend_names
from masu.runtime.blocks.routing import choose
from masu.specs.blocks.routing import (
    RoutingFunction,
    ScaledSoftmaxRouting,
    SigmoidRouting,
    SoftmaxRouting,
    SoftmaxShareRouting,
    SparseMixerRouting,
)

TOKENS, EXPERTS, ACTIVE = 40, 12, 3
LOGITS = np.random.default_rng(0).normal(0, 2, (TOKENS, EXPERTS)).astype(np.float32)
CORRECTIONS = np.random.default_rng(1).normal(0, 0.4, EXPERTS).astype(np.float32)
"""What a rule keeps of each expert: corrections of scores, or scales of weights."""

pytestmark = pytest.mark.parametrize("name", backend_names())


def weights_of(
    name: str, config: RoutingFunction, logits: np.ndarray, active: int = ACTIVE
) -> list[dict[int, float]]:
    """Each token's experts with their weights, as the backend chooses."""
    backend = shared_backend(name)
    is_kept = any(config.tensors(EXPERTS))
    of_experts = backend.array(CORRECTIONS) if is_kept else None
    choice = choose(backend, config, backend.array(logits), active, of_experts)
    rows = zip(backend.to_numpy(choice.experts), backend.to_numpy(choice.weights), strict=True)
    return [dict(zip(e.tolist(), w.tolist(), strict=True)) for e, w in rows]


def assert_same(found: list[dict[int, float]], wanted: list[dict[int, float]]) -> None:
    """The same experts; weights but for a few roundings of float32 numbers around 1."""
    for actual, expected in zip(found, wanted, strict=True):
        assert actual.keys() == expected.keys()
        assert actual == pytest.approx(expected, rel=1e-5, abs=1e-6)


def softmax(values: list[float]) -> list[float]:
    shares = [math.exp(value - max(values)) for value in values]
    return [share / sum(shares) for share in shares]


def best(values: list[float], count: int) -> list[int]:
    return sorted(range(len(values)), key=lambda place: -values[place])[:count]


def test_softmax_over_the_chosen(name: str) -> None:
    config = SoftmaxRouting(type="SoftmaxRouting")
    wanted = []
    for row in LOGITS.tolist():
        places = best(row, ACTIVE)
        wanted.append(dict(zip(places, softmax([row[p] for p in places]), strict=True)))
    found = weights_of(name, config, LOGITS)
    assert_same(found, wanted)
    assert all(sum(weights.values()) == pytest.approx(1, abs=1e-6) for weights in found)


def test_softmax_with_a_scale_for_each_expert(name: str) -> None:
    plain = weights_of(name, SoftmaxRouting(type="SoftmaxRouting"), LOGITS)
    found = weights_of(name, ScaledSoftmaxRouting(type="ScaledSoftmaxRouting"), LOGITS)
    scales = CORRECTIONS.tolist()
    assert_same(found, [{e: w * scales[e] for e, w in row.items()} for row in plain])


def test_shares_of_a_softmax_over_all(name: str) -> None:
    config = SoftmaxShareRouting(type="SoftmaxShareRouting")
    wanted = [
        {place: softmax(row)[place] for place in best(row, ACTIVE)} for row in LOGITS.tolist()
    ]
    assert_same(weights_of(name, config, LOGITS), wanted)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize(("groups", "chosen"), [(1, 1), (4, 2), (4, 4)])
def test_sigmoid(name: str, normalized: bool, corrected: bool, groups: int, chosen: int) -> None:
    config = SigmoidRouting(
        type="SigmoidRouting",
        has_correction_biases=corrected,
        is_normalized=normalized,
        epsilon=0.01,
        scaling_factor=1.7,
        num_groups=groups,
        num_active_groups=chosen,
    )
    wanted = [by_sigmoid(config, row) for row in LOGITS.tolist()]
    assert_same(weights_of(name, config, LOGITS), wanted)


def by_sigmoid(config: SigmoidRouting, row: list[float]) -> dict[int, float]:
    scores = [1 / (1 + math.exp(-value)) for value in row]
    biases = CORRECTIONS.tolist() if config.has_correction_biases else [0.0] * EXPERTS
    ranked = [score + bias for score, bias in zip(scores, biases, strict=True)]
    size = EXPERTS // config.num_groups
    grouped = [ranked[start : start + size] for start in range(0, EXPERTS, size)]
    worth = [sum(sorted(group)[-2:]) for group in grouped]
    open_groups = best(worth, config.num_active_groups)
    ranked = [v if p // size in open_groups else -math.inf for p, v in enumerate(ranked)]
    places = best(ranked, ACTIVE)
    total = sum(scores[place] for place in places) + config.epsilon
    divisor = total if config.is_normalized else 1
    return {place: scores[place] / divisor * config.scaling_factor for place in places}


def test_corrections_choose_and_do_not_weigh(name: str) -> None:
    """The fault that is easily made: weighing by the corrected score."""
    config = SigmoidRouting(
        type="SigmoidRouting",
        has_correction_biases=True,
        is_normalized=False,
        epsilon=0.0,
        scaling_factor=1.0,
        num_groups=1,
        num_active_groups=1,
    )
    logits = np.zeros((1, EXPERTS), np.float32)
    [weights] = weights_of(name, config, logits)
    assert list(weights) == np.argsort(-CORRECTIONS)[:ACTIVE].tolist()
    assert list(weights.values()) == pytest.approx([0.5] * ACTIVE)


@pytest.mark.parametrize("jitter", [0.01, 0.3])
def test_sparse_mixer(name: str, jitter: float) -> None:
    config = SparseMixerRouting(type="SparseMixerRouting", jitter=jitter)
    wanted = [by_sparse_mixer(jitter, row) for row in LOGITS.tolist()]
    found = weights_of(name, config, LOGITS, active=2)
    assert_same(found, wanted)
    alone = sum(value == 1 for weights in found for value in weights.values())
    assert (alone > TOKENS) == (jitter < 0.1), "the jitter decides whether others have a share"


def by_sparse_mixer(jitter: float, row: list[float]) -> dict[int, float]:
    weights: dict[int, float] = {}
    for _ in range(2):
        left = [place for place in range(EXPERTS) if place not in weights]
        winner = max(left, key=lambda place: row[place])
        top = row[winner]
        near = [p for p in left if (top - row[p]) / max(abs(row[p]), top) <= 2 * jitter]
        weights[winner] = softmax([row[p] for p in near])[near.index(winner)]
    return weights


def test_equal_logits_go_to_the_first(name: str) -> None:
    config = SoftmaxRouting(type="SoftmaxRouting")
    [weights] = weights_of(name, config, np.zeros((1, EXPERTS), np.float32))
    assert list(weights) == [0, 1, 2]


def test_all_logits_zero_divide_nothing_by_nothing(name: str) -> None:
    config = SparseMixerRouting(type="SparseMixerRouting", jitter=0.01)
    [weights] = weights_of(name, config, np.zeros((1, EXPERTS), np.float32), active=2)
    assert weights == pytest.approx({0: 1 / EXPERTS, 1: 1 / (EXPERTS - 1)})
