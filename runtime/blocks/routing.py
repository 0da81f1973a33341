"""Which experts each token goes to, and how much the output of each counts."""

import math
from typing import NamedTuple

from masu.runtime.backend import Array, Backend
from masu.runtime.loader import Loader
from masu.specs.blocks.routing import (
    RoutingFunction,
    ScaledSoftmaxRouting,
    SigmoidRouting,
    SoftmaxRouting,
    SoftmaxShareRouting,
    SparseMixerRouting,
)


def load(config: RoutingFunction, router: Loader, experts: int) -> Array | None:
    """What the rule keeps of each expert, wide `[experts]`: corrections or scales, if any."""
    match config:
        case SigmoidRouting(has_correction_biases=True):
            return router.vector("correction_biases", (experts,), "F32")
        case ScaledSoftmaxRouting():
            return router.vector("expert_scales", (experts,), "F32")
        case _:
            return None


class Choice(NamedTuple):
    """`experts` int, `weights` wide, both `[tokens, active]`."""

    experts: Array
    weights: Array


def choose(
    backend: Backend,
    config: RoutingFunction,
    logits: Array,
    active: int,
    of_experts: Array | None,
) -> Choice:
    """Choose `active` experts by wide router logits `[tokens, experts]`; the rest as loaded."""
    match config:
        case SoftmaxRouting():
            experts = _largest(backend, logits, active)
            return Choice(experts, backend.softmax(_at(backend, logits, experts), None))
        case ScaledSoftmaxRouting():
            experts = _largest(backend, logits, active)
            shares = backend.softmax(_at(backend, logits, experts), None)
            return Choice(experts, shares if of_experts is None else shares * of_experts[experts])
        case SoftmaxShareRouting():
            experts = _largest(backend, logits, active)
            return Choice(experts, _at(backend, backend.softmax(logits, None), experts))
        case SigmoidRouting():
            return _by_sigmoid(backend, config, logits, active, of_experts)
        case SparseMixerRouting():
            return _by_sparse_mixer(backend, config, logits)


def _by_sigmoid(
    backend: Backend,
    config: SigmoidRouting,
    logits: Array,
    active: int,
    correction_biases: Array | None,
) -> Choice:
    scores = backend.sigmoid(logits)
    ranked = scores if correction_biases is None else scores + correction_biases
    if config.num_active_groups < config.num_groups:
        ranked = _in_best_groups(backend, config, ranked)
    experts = _largest(backend, ranked, active)
    weights = _at(backend, scores, experts)
    if config.is_normalized:
        weights = weights / (backend.xp.sum(weights, axis=-1, keepdims=True) + config.epsilon)
    return Choice(experts, weights * config.scaling_factor)


def _in_best_groups(backend: Backend, config: SigmoidRouting, ranked: Array) -> Array:
    """The scores, with minus infinity for those outside the best groups."""
    xp = backend.xp
    grouped = ranked.reshape(ranked.shape[0], config.num_groups, -1)
    best_two = xp.sort(grouped, axis=-1)[..., -2:]
    best_groups = _largest(backend, xp.sum(best_two, axis=-1), config.num_active_groups)
    is_best = _is_among(backend, best_groups, config.num_groups)
    return xp.where(is_best[..., None], grouped, -math.inf).reshape(ranked.shape)


def _by_sparse_mixer(backend: Backend, config: SparseMixerRouting, logits: Array) -> Choice:
    """Each round leaves out the experts chosen before it; see the config for the rule."""
    xp, left = backend.xp, logits
    rounds: list[Choice] = []
    for _ in range(2):
        best = xp.max(left, axis=-1, keepdims=True)
        winner = _largest(backend, left, 1)
        is_far = best - logits > 2 * config.jitter * xp.maximum(abs(logits), best)
        shares = backend.softmax(xp.where(is_far, -math.inf, left), None)
        rounds.append(Choice(winner, _at(backend, shares, winner)))
        left = xp.where(_is_among(backend, winner, logits.shape[1]), -math.inf, left)
    return Choice(*(xp.concatenate(both, axis=-1) for both in zip(*rounds, strict=True)))


def _largest(backend: Backend, values: Array, count: int) -> Array:
    """Where the largest values of each row stand, `[tokens, count]`; of equals the first wins."""
    return backend.largest(values, count)


def _at(backend: Backend, values: Array, places: Array) -> Array:
    return backend.picked(values, places)


def _is_among(backend: Backend, places: Array, count: int) -> Array:
    """Whether each of `count` numbers is among the places of a row, `[tokens, count]`."""
    numbers = backend.xp.arange(count, dtype=places.dtype)
    return backend.xp.any(places[:, :, None] == numbers, axis=1)
