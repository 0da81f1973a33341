"""A dense MLP and a mixture of experts side by side, each with norms of its own."""

from typing import Any, NamedTuple

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import mixture_of_experts, norm
from masu.runtime.blocks.mixture_of_experts import MixtureParameters
from masu.runtime.blocks.norm import NormParameters
from masu.runtime.blocks.plain_mlp import PLAIN_MLPS
from masu.runtime.loader import Loader
from masu.specs.blocks.dense_and_mixture import DenseAndMixtureConfig


class DenseAndMixtureParameters(NamedTuple):
    """The scales are wide `[width]`; `dense` is as its own module has it."""

    dense_scales: Array
    mixture_scales: Array
    router_scales: Array
    dense: Any
    post_dense_norm: NormParameters
    mixture: MixtureParameters
    post_mixture_norm: NormParameters


def load(
    config: DenseAndMixtureConfig, loader: Loader, width: int, hidden: int
) -> DenseAndMixtureParameters:
    """`hidden` is the width of the dense MLP."""
    dense, mixture = config.dense_config, config.mixture_config
    return DenseAndMixtureParameters(
        loader.vector("dense_scales", (width,), "F32"),
        loader.vector("mixture_scales", (width,), "F32"),
        loader.vector("router_scales", (width,), "F32"),
        PLAIN_MLPS[type(dense)].load(dense, loader.under("dense"), width, hidden),
        norm.load(config.post_dense_norm_config, loader.under("post_dense_norm"), width),
        mixture_of_experts.load(mixture, loader.under("mixture"), width, hidden),
        norm.load(config.post_mixture_norm_config, loader.under("post_mixture_norm"), width),
    )


def apply(
    backend: Backend, config: DenseAndMixtureConfig, parameters: DenseAndMixtureParameters, x: Array
) -> Array:
    """`[tokens, width]` -> the same."""

    def scaled(scales: Array) -> Array:
        return (backend.wide(x) * scales).astype(x.dtype)

    mlp, mixture = config.dense_config, (config.mixture_config, parameters.mixture)
    dense = PLAIN_MLPS[type(mlp)].apply(
        backend, mlp, parameters.dense, scaled(parameters.dense_scales)
    )
    choice = mixture_of_experts.choose(backend, *mixture, scaled(parameters.router_scales))
    routed = mixture_of_experts.run(backend, *mixture, scaled(parameters.mixture_scales), choice)
    return norm.apply(
        backend, config.post_dense_norm_config, parameters.post_dense_norm, dense
    ) + norm.apply(backend, config.post_mixture_norm_config, parameters.post_mixture_norm, routed)
