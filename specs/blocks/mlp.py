"""Every kind of MLP: what a layer does with each token alone."""

from typing import Annotated

from pydantic import Discriminator

from masu.specs.blocks.dense_mlp import DenseMLPConfig
from masu.specs.blocks.mixture_of_experts import MixtureOfExpertsConfig
from masu.specs.blocks.shared_expert import SharedExpertConfig
from masu.specs.blocks.ungated_mlp import UngatedMLPConfig

MLPConfig = Annotated[
    DenseMLPConfig | MixtureOfExpertsConfig | SharedExpertConfig | UngatedMLPConfig,
    Discriminator("type"),
]
