"""The MLPs that are made of no others: what an expert can be."""

from typing import Annotated

from pydantic import Discriminator

from masu.specs.blocks.dense_mlp import DenseMLPConfig
from masu.specs.blocks.ungated_mlp import UngatedMLPConfig

PlainMLPConfig = Annotated[DenseMLPConfig | UngatedMLPConfig, Discriminator("type")]
