"""A layer that is a mixer or an MLP, and not both (Nemotron-H)."""

from typing import Literal, Self

from pydantic import model_validator

from masu.specs.blocks.mixer import TokenMixerConfig
from masu.specs.blocks.mlp import MLPConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.blocks.rope import RoPEConfig
from masu.specs.strict import Strict
from masu.specs.tensors import Entries, under


class SingleMixerLayerConfig(Strict):
    """`x + mixer(norm(x))` or `x + mlp(norm(x))`; the other one of the two is null."""

    type: Literal["SingleMixerLayerConfig"]
    norm_config: NormalizationConfig
    mixer_config: TokenMixerConfig | None
    mlp_config: MLPConfig | None
    rope_config: RoPEConfig | None

    @model_validator(mode="after")
    def _is_one_of_the_two(self) -> Self:
        if (self.mixer_config is None) == (self.mlp_config is None):
            raise ValueError("either mixer_config or mlp_config must be null, and not both")
        return self

    def tensors(self, width: int, hidden: int) -> Entries:
        yield from under("norm", self.norm_config.tensors(width))
        if self.mixer_config is not None:
            yield from under("mixer", self.mixer_config.tensors(width))
        if self.mlp_config is not None:
            yield from under("mlp", self.mlp_config.tensors(width, hidden))
