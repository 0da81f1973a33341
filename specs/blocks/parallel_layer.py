"""A layer whose mixer and MLP read the same normed stream, side by side (GPT-J, Cohere)."""

from typing import Literal

from masu.specs.blocks.mixer import TokenMixerConfig
from masu.specs.blocks.mlp import MLPConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.blocks.rope import RoPEConfig
from masu.specs.strict import Strict
from masu.specs.tensors import Entries, under


class ParallelLayerConfig(Strict):
    """`x + mixer(norm(x)) + mlp(norm(x))`, with one norm."""

    type: Literal["ParallelLayerConfig"]
    norm_config: NormalizationConfig
    mixer_config: TokenMixerConfig
    mlp_config: MLPConfig
    rope_config: RoPEConfig | None

    def tensors(self, width: int, hidden: int) -> Entries:
        yield from under("norm", self.norm_config.tensors(width))
        yield from under("mixer", self.mixer_config.tensors(width))
        yield from under("mlp", self.mlp_config.tensors(width, hidden))
