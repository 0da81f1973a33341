"""Chooses the next token from logits, reproducibly.

Order, as in lalamo 0.17.0: banned tokens, repetition, presence and frequency penalties,
temperature, top-k, top-p, min-p. Arithmetic is float64 on the model's float32 logits.
"""

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypedDict, Unpack

import numpy as np

from masu.specs.errors import MasuError, RequestError
from masu.specs.generation import GenerationConfig

MAX_SEED = 2**64 - 1


class SamplingOptions(TypedDict, total=False):
    """The attributes of `Sampling`; None leaves one as it is."""

    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    penalty_window: int | None
    banned_tokens: tuple[int, ...] | None
    seed: int | None


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How tokens are chosen. The defaults sample from the model's own distribution.

    Attributes:
        temperature: divides the logits; 0 takes the most likely token, the lowest id among equals.
        top_k: only tokens that are no less likely than the k-th; 0 for all.
        top_p: only the most likely tokens, until their share reaches it; 1 for all. The token
            that reaches it is kept (Holtzman et al., arXiv:1904.09751).
        min_p: only tokens at least this fraction as likely as the best (arXiv:2407.01082).
        repetition_penalty: divides positive logits of tokens seen, multiplies negative ones
            (Keskar et al., arXiv:1909.05858).
        presence_penalty: subtracted once from the logits of tokens seen.
        frequency_penalty: subtracted for every time that a token was seen.
        penalty_window: how many last tokens, prompt included, count as seen; None for all.
        banned_tokens: never chosen.
        seed: the same seed gives the same tokens for the same logits; None draws one.

    Raises:
        RequestError: values out of their range, all of them named.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_window: int | None = None
    banned_tokens: tuple[int, ...] = ()
    seed: int | None = None

    def __post_init__(self) -> None:
        window, seed = self.penalty_window, self.seed
        rules = [
            ("temperature", 0 <= self.temperature < math.inf, "0 or more"),
            ("top_k", self.top_k >= 0, "0 or more"),
            ("top_p", 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("min_p", 0 <= self.min_p <= 1, "between 0 and 1"),
            ("repetition_penalty", 0 < self.repetition_penalty < math.inf, "above 0"),
            ("presence_penalty", math.isfinite(self.presence_penalty), "a finite number"),
            ("frequency_penalty", math.isfinite(self.frequency_penalty), "a finite number"),
            ("penalty_window", window is None or window >= 1, "1 or more"),
            ("seed", seed is None or 0 <= seed <= MAX_SEED, f"between 0 and {MAX_SEED}"),
        ]
        problems = [
            f"{name} must be {what}, found {getattr(self, name)}"
            for name, holds, what in rules
            if not holds
        ]
        if problems:
            raise RequestError("sampling options out of range", problems=problems)

    @classmethod
    def of_package(cls, config: GenerationConfig) -> "Sampling":
        """The package's defaults; where it has none (null), the option is off."""
        return cls().override(
            temperature=config.temperature,
            top_k=config.top_k,
            top_p=config.top_p,
            min_p=config.min_p,
            repetition_penalty=config.repetition_penalty,
            presence_penalty=config.presence_penalty,
            frequency_penalty=config.frequency_penalty,
            penalty_window=config.suffix_repetition_length,
            banned_tokens=config.banned_tokens,
        )

    def override(self, **options: Unpack[SamplingOptions]) -> "Sampling":
        """With other values for those that are given and not None.

        Raises:
            RequestError: values out of their range.
        """
        given = {name: value for name, value in options.items() if value is not None}
        return replace(self, **given)  # pyright: ignore[reportArgumentType]

    @property
    def takes_the_largest(self) -> bool:
        """Whether it is greedy, and every logit counts as it is."""
        penalties = (self.repetition_penalty, self.presence_penalty, self.frequency_penalty)
        return self.temperature == 0 and penalties == (1, 0, 0) and not self.banned_tokens

    def seeded(self) -> "Sampling":
        """With a seed, drawn if there was none, so that the reply can be had again."""
        return self if self.seed is not None else replace(self, seed=secrets.randbits(64))


class Candidates(NamedTuple):
    """Tokens that may still be chosen: `ids` `[n]` in rising order, float64 `logits` `[n]`."""

    ids: np.ndarray
    logits: np.ndarray

    def where(self, kept: np.ndarray) -> "Candidates":
        return Candidates(self.ids[kept], self.logits[kept])

    def probabilities(self) -> np.ndarray:
        shares = np.exp(self.logits - self.logits.max())
        return shares / shares.sum()


def sample(logits: np.ndarray, sampling: Sampling, seen: Sequence[int], position: int) -> int:
    """The token at `position` of the sequence.

    Args:
        logits: float32 `[vocab]`.
        sampling: with a seed, unless it is greedy.
        seen: the sequence so far, prompt included.
        position: decides, with the seed, what is drawn: nothing is carried from token to token.

    Raises:
        MasuError: the logits hold NaN or infinity.
        RequestError: every token is banned, or one that is not in the vocabulary.
    """
    if not np.isfinite(logits).all():
        raise MasuError(f"the model's logits at position {position} are not finite numbers")
    if sampling.takes_the_largest:
        return int(np.argmax(logits))
    candidates = shortlist(logits, sampling, seen)
    if sampling.temperature == 0:
        return int(candidates.ids[np.argmax(candidates.logits)])
    return _draw(candidates, _uniform(sampling.seed, position))


def shortlist(logits: np.ndarray, sampling: Sampling, seen: Sequence[int]) -> Candidates:
    """What the options leave of float32 logits `[vocab]`, never nothing, and make of them."""
    scores = logits.astype(np.float64)
    _penalise(scores, sampling, seen)
    left = Candidates(np.arange(len(scores)), scores)
    if sampling.banned_tokens:
        left = left.where(_allowed(left.ids, sampling.banned_tokens))
    return left if sampling.temperature == 0 else _truncate(left, sampling)


def _allowed(ids: np.ndarray, banned: tuple[int, ...]) -> np.ndarray:
    if strange := [token for token in banned if not 0 <= token < len(ids)]:
        raise RequestError(f"banned token {strange[0]} is outside the vocabulary of {len(ids)}")
    allowed = np.delete(ids, banned)
    if not len(allowed):
        raise RequestError("every token is banned")
    return allowed


def _truncate(left: Candidates, sampling: Sampling) -> Candidates:
    """Temperature, top-k, top-p, min-p."""
    left = Candidates(left.ids, left.logits / sampling.temperature)
    if 0 < (k := sampling.top_k) < len(left.ids):
        left = left.where(left.logits >= np.partition(left.logits, -k)[-k])
    if sampling.top_p < 1:
        left = left.where(_nucleus(left.probabilities(), sampling.top_p))
    if sampling.min_p > 0:
        left = left.where(left.logits >= left.logits.max() + math.log(sampling.min_p))
    return left


def log_probability(logits: np.ndarray, token: int) -> float:
    """Natural logarithm of the token's share in the model's own distribution."""
    scores = logits.astype(np.float64)
    peak = scores.max()
    return float(scores[token] - peak - np.log(np.exp(scores - peak).sum()))


def _penalise(scores: np.ndarray, sampling: Sampling, seen: Sequence[int]) -> None:
    strengths = (sampling.presence_penalty, sampling.frequency_penalty)
    if sampling.repetition_penalty == 1 and strengths == (0, 0):
        return
    window = sampling.penalty_window
    tokens, counts = np.unique(
        np.array(seen if window is None else seen[-window:], np.int64), return_counts=True
    )
    values, penalty = scores[tokens], sampling.repetition_penalty
    values = np.where(values > 0, values / penalty, values * penalty)
    scores[tokens] = values - sampling.presence_penalty - sampling.frequency_penalty * counts


def _nucleus(shares: np.ndarray, top_p: float) -> np.ndarray:
    """Places of the fewest shares that reach `top_p`, in rising order.

    Shares below `(1 - top_p) / n` sum to less than `1 - top_p`, so none of them is needed: they
    are left out before the sort, which then is short.
    """
    large = np.flatnonzero(shares >= (1 - top_p) / len(shares))
    order = large[np.argsort(-shares[large], kind="stable")]
    count = int(np.searchsorted(np.cumsum(shares[order]), top_p)) + 1
    return np.sort(order[:count])


def _draw(candidates: Candidates, uniform: float) -> int:
    """The token at `uniform` of the summed shares, in the order of ids.

    Ordered by id and not by share, so that two nearly equal logits do not trade places.
    """
    sums = np.cumsum(candidates.probabilities())
    place = int(np.searchsorted(sums, uniform * sums[-1], side="right"))
    return int(candidates.ids[min(place, len(candidates.ids) - 1)])


def _uniform(seed: int | None, position: int) -> float:
    """In [0, 1), of 53 bits: the first word of Philox4x64-10 (Salmon et al., SC 2011) that numpy
    gives for this key and counter.

    The raw stream of a bit generator is fixed for good, unlike the methods of numpy's Generator.
    """
    if seed is None:
        raise RequestError("sampling needs a seed", hint="Sampling.seeded() draws one")
    return (int(np.random.Philox(counter=position, key=seed).random_raw()) >> 11) * 2.0**-53
