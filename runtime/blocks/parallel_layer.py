"""A layer whose mixer and MLP run side by side on one normed stream."""

from typing import Any, NamedTuple

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import norm
from masu.runtime.blocks.context import Context
from masu.runtime.blocks.norm import NormParameters
from masu.runtime.blocks.registry import MIXERS, MLPS
from masu.runtime.loader import Loader
from masu.specs.blocks.parallel_layer import ParallelLayerConfig


class ParallelLayerParameters(NamedTuple):
    """`mixer` and `mlp` are the parameters of their own modules."""

    norm: NormParameters
    mixer: Any
    mlp: Any


def load(
    config: ParallelLayerConfig, loader: Loader, width: int, hidden: int
) -> ParallelLayerParameters:
    mixer, mlp = MIXERS[type(config.mixer_config)], MLPS[type(config.mlp_config)]
    return ParallelLayerParameters(
        norm.load(config.norm_config, loader.under("norm"), width),
        mixer.load(config.mixer_config, loader.under("mixer"), width),
        mlp.load(config.mlp_config, loader.under("mlp"), width, hidden),
    )


def apply(
    backend: Backend,
    config: ParallelLayerConfig,
    parameters: ParallelLayerParameters,
    x: Array,
    state: Any,
    context: Context,
) -> tuple[Array, Any]:
    """The stream `[tokens, width]` after this layer, and the mixer's state."""
    mixer, mlp = MIXERS[type(config.mixer_config)], MLPS[type(config.mlp_config)]
    normed = norm.apply(backend, config.norm_config, parameters.norm, x)
    mixed, state = mixer.apply(
        backend, config.mixer_config, parameters.mixer, normed, state, context
    )
    return x + mixed + mlp.apply(backend, config.mlp_config, parameters.mlp, normed), state
