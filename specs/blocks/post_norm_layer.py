"""A layer with norms after the mixer and after the MLP, and none before (OLMo 2)."""

from typing import Literal

from masu.specs.blocks.mixer import TokenMixerConfig
from masu.specs.blocks.mlp import MLPConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.blocks.rope import RoPEConfig
from masu.specs.strict import Strict
from masu.specs.tensors import Entries, under


class PostNormLayerConfig(Strict):
    """`x + norm(mixer(x))`, then `x + norm(mlp(x))` (arXiv:2501.00656, section 3.2)."""

    type: Literal["PostNormLayerConfig"]
    mixer_config: TokenMixerConfig
    post_mixer_norm_config: NormalizationConfig
    mlp_config: MLPConfig
    post_mlp_norm_config: NormalizationConfig
    rope_config: RoPEConfig | None

    def tensors(self, width: int, hidden: int) -> Entries:
        yield from under("mixer", self.mixer_config.tensors(width))
        yield from under("post_mixer_norm", self.post_mixer_norm_config.tensors(width))
        yield from under("mlp", self.mlp_config.tensors(width, hidden))
        yield from under("post_mlp_norm", self.post_mlp_norm_config.tensors(width))
