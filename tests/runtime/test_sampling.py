"""Each step of sampling agrees with transformers, and what is drawn follows the distribution."""

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from masu.runtime.sampling import Sampling, SamplingOptions, log_probability, sample, shortlist
from masu.specs.errors import MasuError, RequestError
from masu.specs.generation import NO_GENERATION_DEFAULTS

VOCAB = 200
SEEN = [3, 7, 3, 3, 199, 0, 7]


def some_logits(seed: int = 0, vocab: int = VOCAB) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, vocab).astype(np.float32)


def shares_of(logits: np.ndarray, sampling: Sampling, seen: list[int]) -> np.ndarray:
    """The probability of every token."""
    left = shortlist(logits, sampling, seen)
    shares = np.zeros(len(logits))
    shares[left.ids] = left.probabilities()
    return shares


def shares_by_transformers(
    logits: np.ndarray, processors: list[Any], seen: list[int]
) -> np.ndarray:
    import torch

    scores = torch.tensor(logits)[None]
    for processor in processors:
        scores = processor(torch.tensor([seen]), scores)
    return torch.softmax(scores.double(), dim=-1)[0].numpy()


def test_penalties_and_warpers_agree_with_transformers() -> None:
    from transformers import (
        MinPLogitsWarper,
        RepetitionPenaltyLogitsProcessor,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    cases: list[tuple[Sampling, list[Any]]] = [
        (Sampling(), []),
        (Sampling(temperature=0.3), [TemperatureLogitsWarper(0.3)]),
        (Sampling(temperature=1.9), [TemperatureLogitsWarper(1.9)]),
        (Sampling(top_k=7), [TopKLogitsWarper(7)]),
        (Sampling(top_k=1), [TopKLogitsWarper(1)]),
        (Sampling(top_k=5000), [TopKLogitsWarper(5000)]),
        (Sampling(top_p=0.9), [TopPLogitsWarper(0.9)]),
        (Sampling(top_p=0.01), [TopPLogitsWarper(0.01)]),
        (Sampling(top_p=0.999), [TopPLogitsWarper(0.999)]),
        (Sampling(min_p=0.05), [MinPLogitsWarper(0.05)]),
        (Sampling(min_p=1.0), [MinPLogitsWarper(1.0)]),
        (Sampling(repetition_penalty=1.3), [RepetitionPenaltyLogitsProcessor(1.3)]),
        (Sampling(repetition_penalty=0.7), [RepetitionPenaltyLogitsProcessor(0.7)]),
        (
            Sampling(repetition_penalty=1.1, temperature=0.7, top_k=20, top_p=0.8, min_p=0.1),
            [
                RepetitionPenaltyLogitsProcessor(1.1),
                TemperatureLogitsWarper(0.7),
                TopKLogitsWarper(20),
                TopPLogitsWarper(0.8),
                MinPLogitsWarper(0.1),
            ],
        ),
    ]
    for sampling, processors in cases:
        for seed in range(20):
            logits = some_logits(seed)
            expected = shares_by_transformers(logits, processors, SEEN)
            # transformers works in float32, so shares agree to about 1e-6; a token more or less
            # on the shortlist would differ by far more.
            np.testing.assert_allclose(
                shares_of(logits, sampling, SEEN),
                expected,
                rtol=1e-4,
                atol=1e-7,
                err_msg=str(sampling),
            )


def test_the_order_is_top_k_before_top_p_before_min_p() -> None:
    logits = np.log(np.array([0.4, 0.3, 0.2, 0.1], np.float32))
    # Of the best two (4/7, 3/7), 0.5 needs one; top-p first would keep two of the four.
    assert np.count_nonzero(shares_of(logits, Sampling(top_k=2, top_p=0.5), [])) == 1
    # min-p of 0.6 keeps 0.4 and 0.3 whatever top-p leaves; after top-p of 0.9 three are left.
    assert np.count_nonzero(shares_of(logits, Sampling(top_p=0.9, min_p=0.6), [])) == 2


def test_top_p_is_the_smallest_set_whatever_the_shortcut_leaves_out() -> None:
    for seed in range(50):
        logits = some_logits(seed, vocab=50)
        for top_p in (0.001, 0.3, 0.7, 0.95, 0.9999999):
            shares = np.exp(logits.astype(np.float64))
            shares /= shares.sum()
            order = np.argsort(-shares, kind="stable")
            count = next(n for n in range(1, 51) if shares[order[:n]].sum() >= top_p or n == 50)
            kept = np.flatnonzero(shares_of(logits, Sampling(top_p=top_p), []))
            assert set(kept) == set(order[:count])


def test_equal_logits_at_the_edge_of_top_k_stay() -> None:
    logits = np.array([1, 2, 2, 2, 0], np.float32)
    assert np.count_nonzero(shares_of(logits, Sampling(top_k=2), [])) == 3


def test_presence_and_frequency_count_what_was_seen() -> None:
    logits = some_logits()
    shifted = logits.astype(np.float64)
    for token in set(SEEN):
        shifted[token] -= 0.5 + 0.25 * SEEN.count(token)
    sampling = Sampling(presence_penalty=0.5, frequency_penalty=0.25)
    expected = np.exp(shifted) / np.exp(shifted).sum()
    np.testing.assert_allclose(shares_of(logits, sampling, SEEN), expected, rtol=1e-12)


def test_the_window_forgets() -> None:
    logits = some_logits()
    short = shares_of(logits, Sampling(repetition_penalty=2.0, penalty_window=2), SEEN)
    assert np.array_equal(short, shares_of(logits, Sampling(repetition_penalty=2.0), SEEN[-2:]))
    assert not np.array_equal(short, shares_of(logits, Sampling(repetition_penalty=2.0), SEEN))


def test_greedy_takes_the_best_and_the_lowest_of_equals() -> None:
    greedy = Sampling(temperature=0)
    assert sample(np.array([0, 3, 3, 1], np.float32), greedy, [], 0) == 1
    banned = Sampling(temperature=0, banned_tokens=(1, 2))
    assert sample(np.array([0, 3, 3, 1], np.float32), banned, [], 0) == 3
    penalised = Sampling(temperature=0, repetition_penalty=1.5)
    assert sample(np.array([2.5, 3, 0], np.float32), penalised, [1], 0) == 0
    assert sample(np.array([-2.5, -2, -9], np.float32), penalised, [1], 0) == 0


def test_banned_tokens_are_never_drawn() -> None:
    logits = np.array([9, 1, 1, 1], np.float32)
    sampling = Sampling(banned_tokens=(0,), seed=1)
    assert {sample(logits, sampling, [], position) for position in range(200)} == {1, 2, 3}


@pytest.mark.parametrize(
    "sampling",
    [Sampling(seed=1), Sampling(seed=2, temperature=0.6, top_k=12), Sampling(seed=3, top_p=0.7)],
)
def test_draws_follow_the_distribution(sampling: Sampling) -> None:
    """Pearson's chi-square: for n cells it has mean n-1 and deviation sqrt(2(n-1)); 5 are allowed.

    The seeds are fixed, so the test either always passes or never does.
    """
    logits, draws = some_logits(5, vocab=30) / 2, 6000
    tokens = [sample(logits, sampling, [], position) for position in range(draws)]
    shares = shares_of(logits, sampling, [])
    counts = np.bincount(tokens, minlength=30)
    assert not counts[shares == 0].any()
    cells = shares * draws >= 5
    statistic = (((counts - shares * draws) ** 2) / np.maximum(shares * draws, 1))[cells].sum()
    freedom = np.count_nonzero(cells) - 1
    assert abs(statistic - freedom) < 5 * math.sqrt(2 * freedom)


def test_the_draw_depends_on_seed_and_position_and_on_nothing_else() -> None:
    logits = some_logits()
    drawn = [sample(logits, Sampling(seed=42), [], position) for position in range(8)]
    assert drawn == [sample(logits, Sampling(seed=42), [5], position) for position in range(8)]
    assert drawn != [sample(logits, Sampling(seed=43), [], position) for position in range(8)]
    assert len(set(drawn)) > 1


def philox(key: int, counter: int) -> int:
    """The first word of Philox4x64-10, from the paper's definition (Salmon et al., SC 2011)."""
    mask, keys, words = 2**64 - 1, [key, 0], [counter, 0, 0, 0]
    for _ in range(10):
        first, second = words[0] * 0xD2E7470EE14C6C93, words[2] * 0xCA5A826395121157
        words = [
            (second >> 64) ^ words[1] ^ keys[0],
            second & mask,
            (first >> 64) ^ words[3] ^ keys[1],
            first & mask,
        ]
        keys = [(keys[0] + 0x9E3779B97F4A7C15) & mask, (keys[1] + 0xBB67AE8584CAA73B) & mask]
    return words[0]


def test_the_random_numbers_are_those_of_the_paper() -> None:
    """A thousand equal shares show the number itself; numpy counts up before its first word."""
    flat = np.zeros(1000, np.float32)
    for seed in (0, 42, 2**64 - 1):
        for position in (0, 1, 2, 4095, 2**31):
            expected = philox(seed, position + 1) * 1000 >> 64
            assert sample(flat, Sampling(seed=seed), [], position) == expected


@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_every_seed_of_64_bits_serves(seed: int) -> None:
    assert 0 <= sample(some_logits(), Sampling(seed=seed), [], 2**31) < VOCAB


def test_a_seed_is_drawn_once() -> None:
    sampling = Sampling().seeded()
    assert sampling.seed is not None
    assert sampling.seeded() is sampling
    assert Sampling().seeded() != sampling
    with pytest.raises(RequestError, match="seed"):
        sample(some_logits(), Sampling(), [], 0)


def test_small_changes_of_logits_seldom_change_the_draw() -> None:
    """Near ties must not swap places: noise of 1e-6 moves each boundary by no more than that."""
    logits = np.zeros(VOCAB, np.float32)
    noise = np.random.default_rng(0).normal(0, 1e-6, VOCAB).astype(np.float32)
    for position in range(300):
        sampling = Sampling(seed=9)
        assert sample(logits, sampling, [], position) == sample(
            logits + noise, sampling, [], position
        )


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_logits_that_are_no_numbers_are_an_error(bad: float) -> None:
    logits = some_logits()
    logits[17] = bad
    with pytest.raises(MasuError, match="position 3"):
        sample(logits, Sampling(temperature=0), [], 3)


def test_a_ban_on_everything_is_refused() -> None:
    with pytest.raises(RequestError, match="banned"):
        sample(np.zeros(2, np.float32), Sampling(banned_tokens=(0, 1), seed=1), [], 0)


@pytest.mark.parametrize("token", [-1, VOCAB])
def test_a_ban_on_a_token_that_is_not_there_is_refused(token: int) -> None:
    with pytest.raises(RequestError, match=f"banned token {token} is outside the vocabulary of"):
        shortlist(some_logits(), Sampling(banned_tokens=(3, token)), [])


def test_log_probability_is_that_of_the_model() -> None:
    logits = np.array([1000.0, 1000.0, 0.0], np.float32)
    assert log_probability(logits, 1) == pytest.approx(-math.log(2))
    assert log_probability(logits, 2) == pytest.approx(-1000 - math.log(2))


def test_options_of_the_package_and_overrides() -> None:
    package = NO_GENERATION_DEFAULTS.model_copy(
        update={
            "temperature": 0.7,
            "top_k": 20,
            "suffix_repetition_length": 64,
            "repetition_penalty": 1.05,
            "banned_tokens": (4,),
        }
    )
    sampling = Sampling.of_package(package)
    assert sampling == Sampling(
        temperature=0.7, top_k=20, penalty_window=64, repetition_penalty=1.05, banned_tokens=(4,)
    )
    changed = sampling.override(temperature=0.0, top_k=0, seed=3)
    assert (changed.temperature, changed.top_k, changed.seed) == (0.0, 0, 3)
    assert changed.repetition_penalty == 1.05
    assert Sampling.of_package(NO_GENERATION_DEFAULTS) == Sampling()


def test_every_option_can_be_overridden_and_none_leaves_it() -> None:
    names = [field.name for field in fields(Sampling)]
    assert list(SamplingOptions.__annotations__) == names
    other = Sampling(temperature=0.5, top_k=1, top_p=0.5, min_p=0.5, repetition_penalty=2.0,
                     presence_penalty=0.5, frequency_penalty=0.5, penalty_window=5,
                     banned_tokens=(1,), seed=5)  # fmt: skip
    options = SamplingOptions(**{name: getattr(other, name) for name in names})
    assert all(getattr(other, name) != getattr(Sampling(), name) for name in names)
    assert Sampling().override(**options) == other
    assert other.override(**SamplingOptions(**dict.fromkeys(names))) == other
    with pytest.raises(RequestError, match="out of range"):
        other.override(top_p=2.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_p", math.nan),
        ("min_p", -0.1),
        ("min_p", 1.5),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", math.inf),
        ("presence_penalty", math.nan),
        ("frequency_penalty", math.inf),
        ("penalty_window", 0),
        ("seed", -1),
        ("seed", 2**64),
    ],
)
def test_options_out_of_range_are_named(name: str, value: float) -> None:
    with pytest.raises(RequestError) as caught:
        Sampling(**{name: value})  # pyright: ignore[reportArgumentType]
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith(name)
