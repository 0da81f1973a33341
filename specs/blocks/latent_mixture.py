"""A mixture whose experts work in a narrower space, between two projections (Nemotron 3)."""

from typing import Annotated, Literal

from pydantic import Discriminator

from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.mixture_of_experts import MixtureOfExpertsConfig
from masu.specs.blocks.plain_mlp import PlainMLPConfig
from masu.specs.strict import Count, Strict
from masu.specs.tensors import Entries, linear, under


class LatentMixtureConfig(Strict):
    """`out(experts(in(x)))`; the router reads `x` itself."""

    type: Literal["LatentMixtureConfig"]
    in_projection_config: LinearConfig
    mixture_config: MixtureOfExpertsConfig
    out_projection_config: LinearConfig
    latent_dim: Count
    has_in_biases: bool
    has_out_biases: bool

    @property
    def expert_config(self) -> PlainMLPConfig:
        return self.mixture_config.expert_config

    def tensors(self, width: int, hidden: int) -> Entries:
        """`hidden`, the width of dense MLPs, plays no part here."""
        inner = self.latent_dim
        yield from linear("in_projection", inner, width, biases=self.has_in_biases)
        yield from under("mixture", self.mixture_config.tensors_of(width, expert_width=inner))
        yield from linear("out_projection", width, inner, biases=self.has_out_biases)


RoutedMLPConfig = Annotated[MixtureOfExpertsConfig | LatentMixtureConfig, Discriminator("type")]
"""The MLPs in which every token goes to experts of its own."""
