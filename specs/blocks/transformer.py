"""A stack of layers, which may be of different kinds."""

from typing import Annotated, Any

from pydantic import Discriminator, Tag

from masu.specs.blocks.layer import TransformerLayerConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.blocks.parallel_layer import ParallelLayerConfig
from masu.specs.blocks.post_norm_layer import PostNormLayerConfig
from masu.specs.blocks.single_mixer_layer import SingleMixerLayerConfig
from masu.specs.strict import Count, Strict
from masu.specs.tensors import Entries, under

ENGINES_KIND = "TransformerLayerConfig"


def _layer_kind(layer: Any) -> str:
    """The engine's own kind of layer has no `type`; every other kind has."""
    if isinstance(layer, dict):
        return str(layer.get("type", ENGINES_KIND))
    return type(layer).__name__ if isinstance(layer, Strict) else ENGINES_KIND


LayerConfig = Annotated[
    Annotated[TransformerLayerConfig, Tag(ENGINES_KIND)]
    | Annotated[PostNormLayerConfig, Tag("PostNormLayerConfig")]
    | Annotated[ParallelLayerConfig, Tag("ParallelLayerConfig")]
    | Annotated[SingleMixerLayerConfig, Tag("SingleMixerLayerConfig")],
    Discriminator(_layer_kind),
]


class TransformerConfig(Strict):
    layer_configs: tuple[LayerConfig, ...]
    output_norm_config: NormalizationConfig
    model_dim: Count
    hidden_dim: Count

    def tensors(self) -> Entries:
        for index, layer in enumerate(self.layer_configs):
            yield from under(f"layers.{index}", layer.tensors(self.model_dim, self.hidden_dim))
        yield from under("output_norm", self.output_norm_config.tensors(self.model_dim))
