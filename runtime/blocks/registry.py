"""Which module runs which block. Adding a block: a module here, and its line below.

A mixer's state is what it keeps of the tokens so far: named tuples of arrays, or None.
"""

from typing import Any, Protocol

import numpy as np

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import (
    attention,
    biased_short_conv,
    delta_net,
    dense_and_mixture,
    full_width_norm_attention,
    general_mamba2,
    latent_mixture,
    mamba2,
    mixture_of_experts,
    mlp,
    parallel_mixer,
    position_scaled_attention,
    shared_expert,
    short_conv,
    ungated_mlp,
)
from masu.runtime.blocks.context import Context
from masu.runtime.loader import Loader
from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.biased_short_conv import BiasedShortConvConfig
from masu.specs.blocks.delta_net import DeltaNetConfig
from masu.specs.blocks.dense_and_mixture import DenseAndMixtureConfig
from masu.specs.blocks.dense_mlp import DenseMLPConfig
from masu.specs.blocks.full_width_norm_attention import FullWidthNormAttentionConfig
from masu.specs.blocks.general_mamba2 import GeneralMamba2Config
from masu.specs.blocks.latent_mixture import LatentMixtureConfig
from masu.specs.blocks.mamba2 import Mamba2Config
from masu.specs.blocks.mixture_of_experts import MixtureOfExpertsConfig
from masu.specs.blocks.parallel_mixer import ParallelMixerConfig
from masu.specs.blocks.position_scaled_attention import PositionScaledAttentionConfig
from masu.specs.blocks.shared_expert import SharedExpertConfig
from masu.specs.blocks.short_conv import ShortConvConfig
from masu.specs.blocks.ungated_mlp import UngatedMLPConfig


class Mixer(Protocol):
    """A module that runs one kind of token mixer.

    Attributes:
        KEEPS_ROWS: its state has a row for every token, and those past the position are void: it
            can go back to any length.
    """

    KEEPS_ROWS: bool

    def load(self, config: Any, loader: Loader, width: int) -> Any:
        """The parameters, asked for by name and shape."""
        ...

    def start(
        self, backend: Backend, config: Any, width: int, capacity: int, dtype: np.dtype
    ) -> Any:
        """The state before the first token, with room for `capacity` tokens.

        Args:
            width: channels of the mixer's input.
            dtype: of the activations.
        """
        ...

    def grow(self, backend: Backend, state: Any, capacity: int) -> Any:
        """The same state with room for more."""
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
        """`[tokens, width]` -> the same, and the state after them. The old state is given up."""
        ...


class MLP(Protocol):
    """A module that runs one kind of MLP."""

    def load(self, config: Any, loader: Loader, width: int, hidden: int) -> Any:
        """The parameters, asked for by name and shape."""
        ...

    def apply(self, backend: Backend, config: Any, parameters: Any, x: Array) -> Array:
        """`[tokens, width]` -> the same."""
        ...


MIXERS: dict[type, Mixer] = {
    AttentionConfig: attention,
    BiasedShortConvConfig: biased_short_conv,
    DeltaNetConfig: delta_net,
    FullWidthNormAttentionConfig: full_width_norm_attention,
    GeneralMamba2Config: general_mamba2,
    Mamba2Config: mamba2,
    ParallelMixerConfig: parallel_mixer,
    PositionScaledAttentionConfig: position_scaled_attention,
    ShortConvConfig: short_conv,
}

MLPS: dict[type, MLP] = {
    DenseAndMixtureConfig: dense_and_mixture,
    DenseMLPConfig: mlp,
    LatentMixtureConfig: latent_mixture,
    MixtureOfExpertsConfig: mixture_of_experts,
    SharedExpertConfig: shared_expert,
    UngatedMLPConfig: ungated_mlp,
}
