"""Every kind of MLP: what a layer does with each token alone."""

from typing import Annotated

from pydantic import Discriminator

from masu.specs.blocks.dense_and_mixture import DenseAndMixtureConfig
from masu.specs.blocks.dense_mlp import DenseMLPConfig
from masu.specs.blocks.latent_mixture import LatentMixtureConfig
from masu.specs.blocks.mixture_of_experts import MixtureOfExpertsConfig
from masu.specs.blocks.shared_expert import SharedExpertConfig
from masu.specs.blocks.ungated_mlp import UngatedMLPConfig

MLPConfig = Annotated[
    DenseMLPConfig
    | DenseAndMixtureConfig
    | LatentMixtureConfig
    | MixtureOfExpertsConfig
    | SharedExpertConfig
    | UngatedMLPConfig,
    Discriminator("type"),
]
