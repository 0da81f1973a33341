"""Mixtures of experts as families write them: the engine's where it fits."""

from masu.converter.assemble import dense_mlp
from masu.specs.blocks.latent_mixture import LatentMixtureConfig, RoutedMLPConfig
from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.mixture_of_experts import MixtureOfExpertsConfig
from masu.specs.blocks.plain_mlp import PlainMLPConfig
from masu.specs.blocks.routing import (
    RoutingFunction,
    SigmoidRouting,
    SoftmaxRouting,
    SoftmaxShareRouting,
)
from masu.specs.blocks.shared_expert import SharedExpertConfig


def softmax_routing(*, normalized: bool = True) -> SoftmaxRouting | SoftmaxShareRouting:
    """`normalized` says whether the weights of the chosen experts add up to 1."""
    if normalized:
        return SoftmaxRouting(type="SoftmaxRouting")
    return SoftmaxShareRouting(type="SoftmaxShareRouting")


def sigmoid_routing(
    *,
    corrected: bool,
    normalized: bool,
    epsilon: float,
    scale: float,
    num_groups: int = 1,
    num_active_groups: int = 1,
) -> SigmoidRouting:
    return SigmoidRouting(
        type="SigmoidRouting",
        has_correction_biases=corrected,
        is_normalized=normalized,
        epsilon=epsilon,
        scaling_factor=scale,
        num_groups=num_groups,
        num_active_groups=num_active_groups,
    )


def mixture(
    *,
    num_experts: int,
    num_active: int,
    hidden_dim: int,
    routing: RoutingFunction | None = None,
    expert: PlainMLPConfig | None = None,
    router_biases: bool = False,
    num_shared: int = 0,
    shared_gate: bool = False,
) -> MixtureOfExpertsConfig:
    """Gated SiLU experts under softmax routing, if nothing else is said.

    `num_shared` experts of the same width follow the routed ones, and every token passes them.
    """
    return MixtureOfExpertsConfig(
        type="MixtureOfExpertsConfig",
        expert_config=expert or dense_mlp(),
        router_config=LinearConfig(),
        routing_function=routing or softmax_routing(),
        num_routed_experts=num_experts,
        num_active_routed_experts=num_active,
        router_has_biases=router_biases,
        num_shared_experts=num_shared,
        expert_hidden_dim=hidden_dim,
        gate_config=LinearConfig() if shared_gate else None,
    )


def in_latent_space(
    routed: MixtureOfExpertsConfig, *, latent_dim: int, biases: bool
) -> LatentMixtureConfig:
    """Experts between a projection into a space of `latent_dim` channels and one back."""
    return LatentMixtureConfig(
        type="LatentMixtureConfig",
        in_projection_config=LinearConfig(),
        mixture_config=routed,
        out_projection_config=LinearConfig(),
        latent_dim=latent_dim,
        has_in_biases=biases,
        has_out_biases=biases,
    )


def beside_shared_expert(
    routed: RoutedMLPConfig,
    *,
    hidden_dim: int,
    gate: bool = False,
    shared: PlainMLPConfig | None = None,
) -> SharedExpertConfig:
    """A mixture and an MLP of another width; the latter like the experts, if not said otherwise."""
    return SharedExpertConfig(
        type="SharedExpertConfig",
        mixture_config=routed,
        shared_config=shared or routed.expert_config,
        shared_hidden_dim=hidden_dim,
        gate_config=LinearConfig() if gate else None,
    )
