"""Every kind of token mixer: what a layer may do along the sequence."""

from typing import Annotated, TypeAlias

from pydantic import Discriminator

from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.biased_short_conv import BiasedShortConvConfig
from masu.specs.blocks.delta_net import DeltaNetConfig
from masu.specs.blocks.full_width_norm_attention import FullWidthNormAttentionConfig
from masu.specs.blocks.general_mamba2 import GeneralMamba2Config
from masu.specs.blocks.mamba2 import Mamba2Config
from masu.specs.blocks.parallel_mixer import ParallelMixerConfig
from masu.specs.blocks.position_scaled_attention import PositionScaledAttentionConfig
from masu.specs.blocks.short_conv import ShortConvConfig

PlainMixerConfig: TypeAlias = (
    AttentionConfig | DeltaNetConfig | GeneralMamba2Config | Mamba2Config | ShortConvConfig
)
"""Mixers that are made of no others: each has a state of its own kind."""

TokenMixerConfig = Annotated[
    PlainMixerConfig
    | BiasedShortConvConfig
    | FullWidthNormAttentionConfig
    | ParallelMixerConfig
    | PositionScaledAttentionConfig,
    Discriminator("type"),
]


def parts(mixer: TokenMixerConfig | None) -> tuple[PlainMixerConfig, ...]:
    """The plain mixers that a mixer is made of; most are their own only part."""
    match mixer:
        case None:
            return ()
        case FullWidthNormAttentionConfig() | PositionScaledAttentionConfig():
            return (mixer.attention_config,)
        case BiasedShortConvConfig():
            return (mixer.short_conv_config,)
        case ParallelMixerConfig():
            return mixer.attention_config, mixer.mamba2_config
        case _:
            return (mixer,)


def is_recurrent(mixer: TokenMixerConfig | None) -> bool:
    """Whether it keeps matrices that sum over the whole sequence, and their rounding with them."""
    kinds = DeltaNetConfig | GeneralMamba2Config | Mamba2Config
    return any(isinstance(part, kinds) for part in parts(mixer))
