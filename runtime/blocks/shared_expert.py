"""A mixture of experts beside an MLP that every token passes."""

from typing import Any, NamedTuple

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import latent_mixture, linear, mixture_of_experts
from masu.runtime.blocks.linear import Linear
from masu.runtime.blocks.plain_mlp import PLAIN_MLPS
from masu.runtime.loader import Loader
from masu.specs.blocks.latent_mixture import LatentMixtureConfig
from masu.specs.blocks.mixture_of_experts import MixtureOfExpertsConfig
from masu.specs.blocks.shared_expert import SharedExpertConfig

MIXTURES: dict[type, Any] = {
    LatentMixtureConfig: latent_mixture,
    MixtureOfExpertsConfig: mixture_of_experts,
}


class SharedExpertParameters(NamedTuple):
    """`mixture` and `shared` as their own modules have them; `gate` `[1, width]`."""

    mixture: Any
    shared: Any
    gate: Linear | None


def load(
    config: SharedExpertConfig, loader: Loader, width: int, hidden: int
) -> SharedExpertParameters:
    """`hidden`, the width of dense MLPs, plays no part."""
    below, shared, routed = loader.under("shared"), config.shared_config, config.mixture_config
    gate = None if config.gate_config is None else loader.under("gate")
    return SharedExpertParameters(
        MIXTURES[type(routed)].load(routed, loader.under("mixture"), width, hidden),
        PLAIN_MLPS[type(shared)].load(shared, below, width, config.shared_hidden_dim),
        None if gate is None else linear.load(gate, 1, width, has_biases=False),
    )


def apply(
    backend: Backend, config: SharedExpertConfig, parameters: SharedExpertParameters, x: Array
) -> Array:
    """`[tokens, width]` -> the same."""
    mixture = MIXTURES[type(config.mixture_config)]
    routed = mixture.apply(backend, config.mixture_config, parameters.mixture, x)
    shared_mlp = PLAIN_MLPS[type(config.shared_config)]
    shared = shared_mlp.apply(backend, config.shared_config, parameters.shared, x)
    if parameters.gate is not None:
        gate = backend.readout(x, parameters.gate.weights)
        shared = shared * backend.sigmoid(gate).astype(x.dtype)
    return routed + shared
