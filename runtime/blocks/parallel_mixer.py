"""Attention and Mamba-2 side by side on the same input, their outputs added."""

from typing import NamedTuple

import numpy as np

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import attention, general_mamba2
from masu.runtime.blocks.attention import AttentionParameters, KVCache
from masu.runtime.blocks.context import Context
from masu.runtime.blocks.general_mamba2 import GeneralMamba2Parameters
from masu.runtime.blocks.recurrent_state import RecurrentState
from masu.runtime.loader import Loader
from masu.specs.blocks.parallel_mixer import ParallelMixerConfig

KEEPS_ROWS: bool = False


class ParallelMixerParameters(NamedTuple):
    attention: AttentionParameters
    mamba2: GeneralMamba2Parameters


class ParallelMixerState(NamedTuple):
    """Both states; the cache is None where the attention reads another layer's."""

    attention: KVCache | None
    mamba2: RecurrentState


def load(config: ParallelMixerConfig, loader: Loader, width: int) -> ParallelMixerParameters:
    return ParallelMixerParameters(
        attention.load(config.attention_config, loader.under("attention"), width),
        general_mamba2.load(config.mamba2_config, loader.under("mamba2"), width),
    )


def start(
    backend: Backend, config: ParallelMixerConfig, width: int, capacity: int, dtype: np.dtype
) -> ParallelMixerState:
    return ParallelMixerState(
        attention.start(backend, config.attention_config, width, capacity, dtype),
        general_mamba2.start(backend, config.mamba2_config, width, capacity, dtype),
    )


def grow(backend: Backend, state: ParallelMixerState, capacity: int) -> ParallelMixerState:
    return state._replace(attention=attention.grow(backend, state.attention, capacity))


def apply(
    backend: Backend,
    config: ParallelMixerConfig,
    parameters: ParallelMixerParameters,
    x: Array,
    state: ParallelMixerState,
    context: Context,
) -> tuple[Array, ParallelMixerState]:
    """`[tokens, width]` -> the same, and both states after it."""
    attended, cache = attention.apply(
        backend, config.attention_config, parameters.attention, x, state.attention, context
    )
    mixed, memory = general_mamba2.apply(
        backend, config.mamba2_config, parameters.mamba2, x, state.mamba2, context
    )
    return attended + mixed, ParallelMixerState(cache, memory)
