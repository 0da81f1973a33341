"""A layer that is a mixer or an MLP, and not both."""

from typing import Any, NamedTuple

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import norm
from masu.runtime.blocks.context import Context
from masu.runtime.blocks.norm import NormParameters
from masu.runtime.blocks.registry import MIXERS, MLPS
from masu.runtime.loader import Loader
from masu.specs.blocks.single_mixer_layer import SingleMixerLayerConfig


class SingleMixerLayerParameters(NamedTuple):
    """`mixer` and `mlp` are the parameters of their own modules; one of them is None."""

    norm: NormParameters
    mixer: Any
    mlp: Any


def load(
    config: SingleMixerLayerConfig, loader: Loader, width: int, hidden: int
) -> SingleMixerLayerParameters:
    mixer, mlp = config.mixer_config, config.mlp_config
    return SingleMixerLayerParameters(
        norm.load(config.norm_config, loader.under("norm"), width),
        mixer and MIXERS[type(mixer)].load(mixer, loader.under("mixer"), width),
        mlp and MLPS[type(mlp)].load(mlp, loader.under("mlp"), width, hidden),
    )


def apply(
    backend: Backend,
    config: SingleMixerLayerConfig,
    parameters: SingleMixerLayerParameters,
    x: Array,
    state: Any,
    context: Context,
) -> tuple[Array, Any]:
    """The stream `[tokens, width]` after this layer, and the mixer's state, if it has one."""
    out = norm.apply(backend, config.norm_config, parameters.norm, x)
    if (mixer := config.mixer_config) is not None:
        module = MIXERS[type(mixer)]
        out, state = module.apply(backend, mixer, parameters.mixer, out, state, context)
    if (mlp := config.mlp_config) is not None:
        out = MLPS[type(mlp)].apply(backend, mlp, parameters.mlp, out)
    return x + out, state
