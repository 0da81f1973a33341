"""Rotary position embeddings: the frequencies of a config, and the angles of a step.

Frequencies are computed in float64 and rounded once.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from masu.runtime.backend import Array, Backend
from masu.specs.blocks.rope import (
    LinearScalingRoPEConfig,
    LlamaRoPEConfig,
    LongRoPEConfig,
    RoPEConfig,
    YARNRoPEConfig,
)


class Rotation(NamedTuple):
    """`frequencies` `[pairs]` in radians per token; `factor` multiplies cosines and sines."""

    frequencies: Array
    factor: float


def rotation(config: RoPEConfig, max_length: int, backend: Backend, wide: np.dtype) -> Rotation:
    """The rotation of a state that will hold at most `max_length` tokens."""
    return Rotation(
        backend.array(frequencies(config, max_length).astype(wide)), attention_factor(config)
    )


def angles(
    backend: Backend, rotations: Sequence[Rotation], positions: Array
) -> tuple[tuple[Array, Array], ...]:
    """Cosines and sines `[tokens, pairs]` for each rotation."""
    return tuple(backend.rotations(*rotation, positions) for rotation in rotations)


def frequencies(config: RoPEConfig, max_length: int) -> np.ndarray:
    """Float64 `[head_dim / 2]`.

    LongRoPE has two lists, for contexts up to the original one and for longer ones. The choice
    depends on the longest context that the state may reach, never on how far it has come: a
    cache holds keys that were turned by one list, and must not meet queries turned by the other.
    """
    exponents = np.arange(0, config.head_dim, 2) / config.head_dim
    plain = config.base**-exponents
    match config:
        case LinearScalingRoPEConfig():
            return plain / config.scaling_factor
        case LlamaRoPEConfig():
            return _llama(config, plain)
        case YARNRoPEConfig():
            return _yarn(config, plain)
        case LongRoPEConfig():
            is_long = max_length > config.original_context_length
            return plain / np.array(config.long_factor if is_long else config.short_factor)
    return plain


def attention_factor(config: RoPEConfig) -> float:
    """What turned queries and keys are multiplied by: YaRN's section 3.4, LongRoPE's own code."""
    match config:
        case YARNRoPEConfig():
            return 0.1 * math.log(config.scaling_factor) + 1
        case LongRoPEConfig() if config.scaling_factor > 1:
            original = math.log(config.original_context_length)
            return math.sqrt(1 + math.log(config.scaling_factor) / original)
    return 1.0


def _llama(config: LlamaRoPEConfig, plain: np.ndarray) -> np.ndarray:
    """Long waves are slowed, short ones kept, with a linear blend between the two limits."""
    low, high = config.low_frequency_factor, config.high_frequency_factor
    turns = config.original_context_length * plain / (2 * math.pi)
    kept = np.clip((turns - low) / (high - low), 0, 1)
    return kept * plain + (1 - kept) * plain / config.scaling_factor


def _yarn(config: YARNRoPEConfig, plain: np.ndarray) -> np.ndarray:
    """Pairs that turn often in the original context are kept, the others slowed, along a ramp."""
    first = _correction_dim(config, config.beta_fast)
    last = _correction_dim(config, config.beta_slow)
    if config.truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, config.head_dim - 1)
    width = last - first if last != first else 0.001  # a step, without a division by zero
    slowed = np.clip((np.arange(config.head_dim // 2) - first) / width, 0, 1)
    return (1 - slowed) * plain + slowed * plain / config.scaling_factor


def _correction_dim(config: YARNRoPEConfig, turns: float) -> float:
    """The pair that makes this many turns within the original context (YaRN, section 3.2)."""
    wavelength = config.original_context_length / (turns * 2 * math.pi)
    return config.head_dim * math.log(wavelength) / (2 * math.log(config.base))
