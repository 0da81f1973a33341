"""A mixture of experts: a router picks a few MLPs of a stack for each token."""

from typing import NamedTuple

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import linear, routing
from masu.runtime.blocks.linear import Linear
from masu.runtime.blocks.routing import Choice
from masu.runtime.loader import Loader
from masu.specs.blocks.mixture_of_experts import MixtureOfExpertsConfig


class MixtureParameters(NamedTuple):
    """`of_experts` is what the routing function keeps of each; the rest as their loaders say."""

    router: Linear
    of_experts: Array | None
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
    return load_of(config, loader, width, expert_width=width)


def load_of(
    config: MixtureOfExpertsConfig, loader: Loader, width: int, expert_width: int
) -> MixtureParameters:
    """Experts may read another vector than the router, of a width of its own."""
    router, routed = loader.under("router"), config.num_routed_experts
    gate = None if config.gate_config is None else loader.under("gate")
    return MixtureParameters(
        linear.load(router, routed, width, has_biases=config.router_has_biases),
        routing.load(config.routing_function, router, routed),
        _load_experts(config, loader.under("experts"), expert_width),
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
    return run(backend, config, parameters, x, choose(backend, config, parameters, x))


def choose(
    backend: Backend, config: MixtureOfExpertsConfig, parameters: MixtureParameters, x: Array
) -> Choice:
    """The experts of each token `[tokens, width]`, shared ones included, and their weights."""
    choice = _route(backend, config, parameters, x)
    return _with_shared(backend, config, parameters, x, choice)


def run(
    backend: Backend,
    config: MixtureOfExpertsConfig,
    parameters: MixtureParameters,
    x: Array,
    choice: Choice,
) -> Array:
    """What the chosen experts make of `[tokens, expert width]`, weighted and added up."""
    up, down = parameters.experts
    return backend.experts(x, *up, *down, config.expert_config, *choice)


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
        parameters.of_experts,
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
