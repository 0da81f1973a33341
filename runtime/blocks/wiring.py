"""What the layers of a stack take from elsewhere: the angles of a rotation, another's cache."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from masu.runtime.backend import Array
from masu.runtime.blocks.context import Context
from masu.specs.blocks.layer import TransformerLayerConfig
from masu.specs.blocks.rope import RoPEConfig
from masu.specs.blocks.transformer import LayerConfig, TransformerConfig


@dataclass(frozen=True)
class Wiring:
    """Per layer: the place of its RoPE config among `ropes`, and the layer whose cache it reads.

    Layers with equal RoPE configs share their angles, which are computed once in a step.
    """

    ropes: tuple[RoPEConfig, ...]
    rope_places: tuple[int | None, ...]
    sources: tuple[int | None, ...]

    @classmethod
    def of(cls, config: TransformerConfig) -> "Wiring":
        own = [layer.rope_config for layer in config.layer_configs]
        ropes = tuple(dict.fromkeys(rope for rope in own if rope is not None))
        return cls(
            ropes,
            tuple(None if rope is None else ropes.index(rope) for rope in own),
            tuple(source_of(layer) for layer in config.layer_configs),
        )

    def context(
        self,
        layer: int,
        position: Array,
        length: Array,
        angles: Sequence[tuple[Array, Array]],
        states: Sequence[Any],
        told: Sequence[Array] | None,
    ) -> Context:
        """What the layer gets; `states` are those of the layers before it, updated."""
        place, source = self.rope_places[layer], self.sources[layer]
        return Context(
            position,
            length,
            rotation=None if place is None else angles[place],
            shared=None if source is None else states[source],
            told=None if told is None else told[layer],
        )


def source_of(layer: LayerConfig) -> int | None:
    """The layer whose cache this one reads; only the engine's own kind can."""
    return layer.kv_source_layer_index if isinstance(layer, TransformerLayerConfig) else None
