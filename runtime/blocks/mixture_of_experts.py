"""A mixture of experts: a router picks a few MLPs of a stack for each token.

One token runs the experts it chose, and reads no others' weights. Several tokens run every
expert one after the other, and keep what they chose: each weight is read once, and no shape
depends on the choice.
"""

from typing import NamedTuple

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import linear, routing
from masu.runtime.blocks.linear import Linear
from masu.runtime.blocks.plain_mlp import PLAIN_MLPS
from masu.runtime.blocks.routing import Choice
from masu.runtime.loader import Loader
from masu.specs.blocks.mixture_of_experts import MixtureOfExpertsConfig
from masu.specs.blocks.routing import SigmoidRouting


class MixtureParameters(NamedTuple):
    """`correction_biases` wide `[routed experts]`; the rest as their loaders say."""

    router: Linear
    correction_biases: Array | None
    experts: "ExpertParameters"
    gate: Linear | None


class ExpertParameters(NamedTuple):
    """The parameters of the experts' own module, stacked: routed experts first, then shared ones.

    `up_projection` `[experts, rows, width]`, `down_projection` `[experts, width, hidden]`.
    """

    up_projection: Linear
    down_projection: Linear


def load(
    config: MixtureOfExpertsConfig, loader: Loader, width: int, hidden: int
) -> MixtureParameters:
    """`hidden`, the width of dense MLPs, plays no part."""
    rule, routed = config.routing_function, config.num_routed_experts
    router = loader.under("router")
    is_corrected = isinstance(rule, SigmoidRouting) and rule.has_correction_biases
    gate = None if config.gate_config is None else loader.under("gate")
    return MixtureParameters(
        linear.load(router, routed, width, has_biases=config.router_has_biases),
        router.vector("correction_biases", (routed,), "F32") if is_corrected else None,
        _load_experts(config, loader.under("experts"), width),
        None if gate is None else linear.load(gate, 1, width, has_biases=False),
    )


def _load_experts(config: MixtureOfExpertsConfig, loader: Loader, width: int) -> ExpertParameters:
    expert, inner = config.expert_config, config.expert_hidden_dim
    rows = expert.up_rows(inner)

    def stack(name: str, rows: int, columns: int, has_biases: bool) -> Linear:
        below, experts = loader.under(name), config.num_experts
        return Linear(
            below.matrix("weights", rows, columns, experts=experts),
            below.vector("biases", (experts, rows)) if has_biases else None,
        )

    return ExpertParameters(
        stack("up_projection", rows, width, expert.has_up_biases),
        stack("down_projection", width, inner, expert.has_down_biases),
    )


def apply(
    backend: Backend, config: MixtureOfExpertsConfig, parameters: MixtureParameters, x: Array
) -> Array:
    """`[tokens, width]` -> the same."""
    choice = _with_shared(backend, config, parameters, x, _route(backend, config, parameters, x))
    if x.shape[0] == 1:
        experts, weights = choice.experts[0], choice.weights.T
    else:
        experts = backend.xp.arange(config.num_experts, dtype=choice.experts.dtype)
        weights = _by_expert(backend, experts, choice)

    def weighted(place: Array) -> Array:
        out = _run(backend, config, parameters.experts, x, experts[place])
        weight = weights[place][:, None]
        # What a token did not choose may be anything, infinite included.
        return weight * backend.xp.where(weight != 0, out, 0.0)

    nothing = backend.xp.zeros(x.shape, weights.dtype)
    return backend.total(weighted, len(experts), nothing).astype(x.dtype)


def _route(
    backend: Backend, config: MixtureOfExpertsConfig, parameters: MixtureParameters, x: Array
) -> Choice:
    """Logits stay wide: rounding must not decide between experts."""
    logits = backend.readout(x, parameters.router.weights)
    if parameters.router.biases is not None:
        logits = logits + parameters.router.biases
    return routing.choose(
        backend,
        config.routing_function,
        logits,
        config.num_active_routed_experts,
        parameters.correction_biases,
    )


def _with_shared(
    backend: Backend,
    config: MixtureOfExpertsConfig,
    parameters: MixtureParameters,
    x: Array,
    choice: Choice,
) -> Choice:
    """The choice and all shared experts, weighted by the gate or by 1."""
    xp, tokens, shared = backend.xp, x.shape[0], config.num_shared_experts
    if not shared:
        return choice
    numbers = xp.arange(shared, dtype=choice.experts.dtype) + config.num_routed_experts
    weight = xp.ones((tokens, 1), choice.weights.dtype)
    if parameters.gate is not None:
        weight = backend.sigmoid(backend.readout(x, parameters.gate.weights))
    return Choice(
        xp.concatenate([choice.experts, xp.broadcast_to(numbers, (tokens, shared))], axis=1),
        xp.concatenate([choice.weights, xp.broadcast_to(weight, (tokens, shared))], axis=1),
    )


def _run(
    backend: Backend,
    config: MixtureOfExpertsConfig,
    parameters: ExpertParameters,
    x: Array,
    expert: Array,
) -> Array:
    """What one expert makes of all tokens, wide `[tokens, width]`."""
    own = ExpertParameters(*(linear.at(stack, expert) for stack in parameters))
    mlp = PLAIN_MLPS[type(config.expert_config)]
    return backend.wide(mlp.apply(backend, config.expert_config, own, x))


def _by_expert(backend: Backend, experts: Array, choice: Choice) -> Array:
    """The weights as `[experts, tokens]`, 0 where a token did not choose the expert."""
    is_chosen = choice.experts[:, :, None] == experts
    return backend.xp.sum(backend.xp.where(is_chosen, choice.weights[:, :, None], 0.0), axis=1).T
