"""Which module runs which kind of layer. Adding a kind: a module here, and its line below."""

from typing import Any, Protocol

import numpy as np

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import layer, parallel_layer, post_norm_layer, single_mixer_layer
from masu.runtime.blocks.context import Context
from masu.runtime.blocks.registry import MIXERS
from masu.runtime.loader import Loader
from masu.specs.blocks.layer import TransformerLayerConfig
from masu.specs.blocks.parallel_layer import ParallelLayerConfig
from masu.specs.blocks.post_norm_layer import PostNormLayerConfig
from masu.specs.blocks.single_mixer_layer import SingleMixerLayerConfig
from masu.specs.blocks.transformer import LayerConfig


class Layer(Protocol):
    """A module that runs one kind of layer."""

    def load(self, config: Any, loader: Loader, width: int, hidden: int) -> Any:
        """The parameters; `hidden` is the width of an MLP that has none of its own."""
        ...

    def apply(
        self,
        backend: Backend,
        config: Any,
        parameters: Any,
        x: Array,
        state: Any,
        context: Context,
    ) -> tuple[Array, Any]:
        """The stream `[tokens, width]` after the layer, and its mixer's state."""
        ...


LAYERS: dict[type, Layer] = {
    TransformerLayerConfig: layer,
    PostNormLayerConfig: post_norm_layer,
    ParallelLayerConfig: parallel_layer,
    SingleMixerLayerConfig: single_mixer_layer,
}

ARGUMENTS = ("rope_config", "kv_source_layer_index")
"""Fields that reach `apply` in other ways: as angles, and as the state of another layer."""


def body_config(config: LayerConfig) -> LayerConfig:
    """The config without what `apply` gets as an argument: layers alike in the rest share code."""
    fields = type(config).model_fields
    return config.model_copy(update={name: None for name in ARGUMENTS if name in fields})


def keeps_rows(config: LayerConfig) -> bool:
    """Whether the layer's state can go back to any length (`Mixer.KEEPS_ROWS`)."""
    mixer = config.mixer_config
    return mixer is None or MIXERS[type(mixer)].KEEPS_ROWS


def start(backend: Backend, config: LayerConfig, width: int, capacity: int, dtype: np.dtype) -> Any:
    """The layer's state before the first token; None for a layer without a mixer."""
    mixer = config.mixer_config
    return mixer and MIXERS[type(mixer)].start(backend, mixer, width, capacity, dtype)


def grow(backend: Backend, config: LayerConfig, state: Any, capacity: int) -> Any:
    """The same state with room for more."""
    mixer = config.mixer_config
    return mixer and MIXERS[type(mixer)].grow(backend, state, capacity)
