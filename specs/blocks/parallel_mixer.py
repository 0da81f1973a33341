"""Attention and Mamba-2 side by side on the same input, their outputs added (Falcon-H1)."""

from typing import Literal

from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.general_mamba2 import GeneralMamba2Config
from masu.specs.strict import Strict
from masu.specs.tensors import Entries, under


class ParallelMixerConfig(Strict):
    type: Literal["ParallelMixerConfig"]
    attention_config: AttentionConfig
    mamba2_config: GeneralMamba2Config

    def tensors(self, width: int) -> Entries:
        yield from under("attention", self.attention_config.tensors(width))
        yield from under("mamba2", self.mamba2_config.tensors(width))
