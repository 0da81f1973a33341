"""A layer that norms what its mixer and its MLP give, not what they read."""

from typing import Any, NamedTuple

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import norm
from masu.runtime.blocks.context import Context
from masu.runtime.blocks.norm import NormParameters
from masu.runtime.blocks.registry import MIXERS, MLPS
from masu.runtime.loader import Loader
from masu.specs.blocks.post_norm_layer import PostNormLayerConfig


class PostNormLayerParameters(NamedTuple):
    """`mixer` and `mlp` are the parameters of their own modules."""

    mixer: Any
    post_mixer_norm: NormParameters
    mlp: Any
    post_mlp_norm: NormParameters


def load(
    config: PostNormLayerConfig, loader: Loader, width: int, hidden: int
) -> PostNormLayerParameters:
    mixer, mlp = MIXERS[type(config.mixer_config)], MLPS[type(config.mlp_config)]
    return PostNormLayerParameters(
        mixer.load(config.mixer_config, loader.under("mixer"), width),
        norm.load(config.post_mixer_norm_config, loader.under("post_mixer_norm"), width),
        mlp.load(config.mlp_config, loader.under("mlp"), width, hidden),
        norm.load(config.post_mlp_norm_config, loader.under("post_mlp_norm"), width),
    )


def apply(
    backend: Backend,
    config: PostNormLayerConfig,
    parameters: PostNormLayerParameters,
    x: Array,
    state: Any,
    context: Context,
) -> tuple[Array, Any]:
    """The stream `[tokens, width]` after this layer, and the mixer's state."""
    mixer, mlp = MIXERS[type(config.mixer_config)], MLPS[type(config.mlp_config)]
    mixed, state = mixer.apply(backend, config.mixer_config, parameters.mixer, x, state, context)
    x = x + norm.apply(backend, config.post_mixer_norm_config, parameters.post_mixer_norm, mixed)
    out = mlp.apply(backend, config.mlp_config, parameters.mlp, x)
    x = x + norm.apply(backend, config.post_mlp_norm_config, parameters.post_mlp_norm, out)
    return x, state
