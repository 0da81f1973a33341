"""Where the config of a mixture of experts contradicts itself."""

from collections.abc import Iterator

from masu.specs.blocks.dense_and_mixture import DenseAndMixtureConfig
from masu.specs.blocks.latent_mixture import LatentMixtureConfig
from masu.specs.blocks.mixture_of_experts import MixtureOfExpertsConfig
from masu.specs.blocks.mlp import MLPConfig
from masu.specs.blocks.routing import SigmoidRouting, SparseMixerRouting
from masu.specs.blocks.shared_expert import SharedExpertConfig


def mixture_problems(mlp: MLPConfig | None) -> Iterator[str]:
    """Nothing for an MLP of another kind."""
    match mlp:
        case MixtureOfExpertsConfig():
            yield from _problems(mlp)
        case DenseAndMixtureConfig() | LatentMixtureConfig() | SharedExpertConfig():
            yield from mixture_problems(mlp.mixture_config)


def _problems(mixture: MixtureOfExpertsConfig) -> Iterator[str]:
    routed, active = mixture.num_routed_experts, mixture.num_active_routed_experts
    if active > routed:
        yield f"num_active_routed_experts {active} is above num_routed_experts {routed}"
    if mixture.gate_config is not None and not mixture.num_shared_experts:
        yield "gate_config is not null, and there is no shared expert that it gates"
    match mixture.routing_function:
        case SparseMixerRouting() if active != 2:
            yield f"num_active_routed_experts must be 2 for SparseMixerRouting, not {active}"
        case SigmoidRouting() as routing:
            yield from _group_problems(routing, routed, active)


def _group_problems(routing: SigmoidRouting, routed: int, active: int) -> Iterator[str]:
    groups, chosen = routing.num_groups, routing.num_active_groups
    if routed % groups:
        yield f"num_routed_experts {routed} is not a multiple of num_groups {groups}"
    elif chosen < groups and routed // groups < 2:
        yield f"num_groups {groups} leaves fewer than the two experts that rank a group"
    elif active > chosen * (routed // groups):
        yield f"{chosen} of {groups} groups have fewer than {active} experts to choose"
