"""Rotary position embeddings: base frequencies and how a longer context rescales them."""

from typing import Annotated, Literal

from pydantic import Discriminator

from masu.specs.strict import Count, Strict


class UnscaledRoPEConfig(Strict):
    """Plain RoPE. `head_dim` counts the rotated channels, which may be fewer than the head has."""

    type: Literal["UnscaledRoPEConfig"]
    base: float
    max_sequence_length: Count
    head_dim: Count


class LinearScalingRoPEConfig(Strict):
    """Every frequency divided by `scaling_factor` (position interpolation, arXiv:2306.15595)."""

    type: Literal["LinearScalingRoPEConfig"]
    base: float
    max_sequence_length: Count
    head_dim: Count
    scaling_factor: float


class LlamaRoPEConfig(Strict):
    """Llama 3.1: low frequencies divided, high ones kept, a linear blend between them."""

    type: Literal["LlamaRoPEConfig"]
    base: float
    max_sequence_length: Count
    head_dim: Count
    scaling_factor: float
    original_context_length: Count
    low_frequency_factor: float
    high_frequency_factor: float


class YARNRoPEConfig(Strict):
    """YaRN (arXiv:2309.00071): a ramp over the channels, and a scaled attention temperature."""

    type: Literal["YARNRoPEConfig"]
    base: float
    max_sequence_length: Count
    head_dim: Count
    scaling_factor: float
    original_context_length: Count
    beta_fast: float
    beta_slow: float
    truncate: bool


class LongRoPEConfig(Strict):
    """LongRoPE (arXiv:2402.13753): one factor per channel pair, a short and a long list."""

    type: Literal["LongRoPEConfig"]
    base: float
    max_sequence_length: Count
    head_dim: Count
    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]
    original_context_length: Count
    scaling_factor: float


RoPEConfig = Annotated[
    UnscaledRoPEConfig
    | LinearScalingRoPEConfig
    | LlamaRoPEConfig
    | YARNRoPEConfig
    | LongRoPEConfig,
    Discriminator("type"),
]
