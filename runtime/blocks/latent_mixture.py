"""A mixture whose experts work in a narrower space, between two projections."""

from typing import NamedTuple

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import linear, mixture_of_experts
from masu.runtime.blocks.linear import Linear
from masu.runtime.blocks.mixture_of_experts import MixtureParameters
from masu.runtime.loader import Loader
from masu.specs.blocks.latent_mixture import LatentMixtureConfig


class LatentMixtureParameters(NamedTuple):
    """`in_projection` `[latent, width]`, `out_projection` `[width, latent]`."""

    in_projection: Linear
    mixture: MixtureParameters
    out_projection: Linear


def load(
    config: LatentMixtureConfig, loader: Loader, width: int, hidden: int
) -> LatentMixtureParameters:
    """`hidden`, the width of dense MLPs, plays no part."""
    into, out, inner = (
        loader.under("in_projection"),
        loader.under("out_projection"),
        config.latent_dim,
    )
    return LatentMixtureParameters(
        linear.load(into, inner, width, has_biases=config.has_in_biases),
        mixture_of_experts.load_of(config.mixture_config, loader.under("mixture"), width, inner),
        linear.load(out, width, inner, has_biases=config.has_out_biases),
    )


def apply(
    backend: Backend, config: LatentMixtureConfig, parameters: LatentMixtureParameters, x: Array
) -> Array:
    """`[tokens, width]` -> the same."""
    mixture = config.mixture_config, parameters.mixture
    choice = mixture_of_experts.choose(backend, *mixture, x)
    narrow = linear.apply(backend, parameters.in_projection, x)
    narrow = mixture_of_experts.run(backend, *mixture, narrow, choice)
    return linear.apply(backend, parameters.out_projection, narrow)
