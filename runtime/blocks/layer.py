"""A transformer layer: a token mixer and an MLP, each normed, each added to the stream."""

from typing import Any, NamedTuple

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import norm, ple
from masu.runtime.blocks.context import Context
from masu.runtime.blocks.norm import NormParameters
from masu.runtime.blocks.ple import PLELayerParameters
from masu.runtime.blocks.registry import MIXERS, MLPS
from masu.runtime.loader import Loader
from masu.specs.blocks.layer import TransformerLayerConfig


class LayerParameters(NamedTuple):
    """`mixer` and `mlp` are the parameters of their own modules; the scalar is wide `[1]`."""

    pre_mixer_norm: NormParameters | None
    mixer: Any
    post_mixer_norm: NormParameters | None
    pre_mlp_norm: NormParameters | None
    mlp: Any
    post_mlp_norm: NormParameters | None
    ple: PLELayerParameters | None
    post_layer_scalar: Array | None


def load(
    config: TransformerLayerConfig, loader: Loader, width: int, hidden: int
) -> LayerParameters:
    """`hidden` is the width of the MLP where the layer has none of its own."""
    mixer, mlp = MIXERS[type(config.mixer_config)], MLPS[type(config.mlp_config)]
    return LayerParameters(
        norm.load_optional(config.pre_mixer_norm_config, loader.under("pre_mixer_norm"), width),
        mixer.load(config.mixer_config, loader.under("mixer"), width),
        norm.load_optional(config.post_mixer_norm_config, loader.under("post_mixer_norm"), width),
        norm.load(config.pre_mlp_norm_config, loader.under("pre_mlp_norm"), width),
        mlp.load(config.mlp_config, loader.under("mlp"), width, config.hidden_dim or hidden),
        norm.load_optional(config.post_mlp_norm_config, loader.under("post_mlp_norm"), width),
        ple.load_layer(config.ple_config, loader.under("ple"), width)
        if config.ple_config
        else None,
        loader.vector("post_layer_scalar", (1,)) if config.has_post_layer_scalar else None,
    )


def apply(
    backend: Backend,
    config: TransformerLayerConfig,
    parameters: LayerParameters,
    x: Array,
    state: Any,
    context: Context,
) -> tuple[Array, Any]:
    """The stream `[tokens, width]` after this layer, and the mixer's state."""
    mixer, mlp = MIXERS[type(config.mixer_config)], MLPS[type(config.mlp_config)]
    mixed = norm.apply(backend, config.pre_mixer_norm_config, parameters.pre_mixer_norm, x)
    mixed, state = mixer.apply(
        backend, config.mixer_config, parameters.mixer, mixed, state, context
    )
    x = x + norm.apply(backend, config.post_mixer_norm_config, parameters.post_mixer_norm, mixed)
    out = norm.apply(backend, config.pre_mlp_norm_config, parameters.pre_mlp_norm, x)
    out = mlp.apply(backend, config.mlp_config, parameters.mlp, out)
    x = x + norm.apply(backend, config.post_mlp_norm_config, parameters.post_mlp_norm, out)
    if config.ple_config is not None and parameters.ple is not None:
        x = ple.apply(backend, config.ple_config, parameters.ple, x, context.told)
    if parameters.post_layer_scalar is not None:
        x = x * parameters.post_layer_scalar.astype(x.dtype)
    return x, state
