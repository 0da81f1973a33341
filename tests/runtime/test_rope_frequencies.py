"""Frequencies of every RoPE config against transformers' own functions.

The golden logits cover all variants once; here are the corners that they do not reach.
"""

import math

import numpy as np
import pytest
from transformers.configuration_utils import PreTrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from masu.runtime.blocks.rope import attention_factor, frequencies
from masu.specs.blocks.rope import (
    LinearScalingRoPEConfig,
    LlamaRoPEConfig,
    LongRoPEConfig,
    RoPEConfig,
    UnscaledRoPEConfig,
    YARNRoPEConfig,
)

HEAD = 64
BASE = {"base": 10000.0, "max_sequence_length": 4096, "head_dim": HEAD}
FACTORS = tuple(1 + 0.25 * i for i in range(HEAD // 2))
ONES = (1.0,) * (HEAD // 2)


def yarn(**fields: object) -> YARNRoPEConfig:
    settings = {
        "scaling_factor": 8.0,
        "original_context_length": 512,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": True,
    }
    return YARNRoPEConfig.model_validate({"type": "YARNRoPEConfig", **BASE, **settings, **fields})


def transformers_of(config: RoPEConfig) -> tuple[np.ndarray, float]:
    """What transformers computes for the same settings, for a run of 4096 tokens."""
    original = getattr(config, "original_context_length", None)
    names = {
        UnscaledRoPEConfig: "default",
        LinearScalingRoPEConfig: "linear",
        LlamaRoPEConfig: "llama3",
        YARNRoPEConfig: "yarn",
        LongRoPEConfig: "longrope",
    }
    parameters = {
        "rope_type": names[type(config)],
        "rope_theta": config.base,
        "factor": getattr(config, "scaling_factor", None),
        "original_max_position_embeddings": original,
        "low_freq_factor": getattr(config, "low_frequency_factor", None),
        "high_freq_factor": getattr(config, "high_frequency_factor", None),
        **{
            name: getattr(config, name)
            for name in ("beta_fast", "beta_slow", "truncate", "short_factor", "long_factor")
            if hasattr(config, name)
        },
    }
    theirs = PreTrainedConfig()
    theirs.head_dim, theirs.hidden_size, theirs.num_attention_heads = HEAD, 4 * HEAD, 4
    theirs.max_position_embeddings = 4096
    theirs.rope_parameters = {k: v for k, v in parameters.items() if v is not None}
    found, factor = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](theirs, "cpu", seq_len=4096)
    return found.numpy(), factor


@pytest.mark.parametrize(
    "config",
    [
        LinearScalingRoPEConfig(type="LinearScalingRoPEConfig", **BASE, scaling_factor=8.0),
        LlamaRoPEConfig(
            type="LlamaRoPEConfig",
            **BASE,
            scaling_factor=8.0,
            original_context_length=512,
            low_frequency_factor=1.0,
            high_frequency_factor=4.0,
        ),
        yarn(),
        yarn(truncate=False),
        yarn(beta_fast=200.0),  # the ramp would begin before the first pair
        yarn(beta_fast=2.0, beta_slow=2.0),  # the ramp is a step
        yarn(beta_fast=2.0, beta_slow=2.0, truncate=False),
        yarn(base=100.0, beta_slow=1e-3),  # the ramp would end after the last pair
        LongRoPEConfig(
            type="LongRoPEConfig",
            **BASE,
            short_factor=ONES,
            long_factor=FACTORS,
            original_context_length=512,
            scaling_factor=8.0,
        ),
    ],
    ids=lambda config: config.type,
)
def test_as_transformers(config: RoPEConfig) -> None:
    """They compute in float32, we round once: 1e-6."""
    wanted, factor = transformers_of(config)
    assert np.allclose(frequencies(config, 4096), wanted, rtol=1e-6, atol=0)
    assert math.isclose(attention_factor(config), factor, rel_tol=1e-9)


def test_unscaled() -> None:
    config = UnscaledRoPEConfig(type="UnscaledRoPEConfig", **BASE)
    wanted = [10000.0 ** (-2 * pair / HEAD) for pair in range(HEAD // 2)]
    assert np.allclose(frequencies(config, 1), wanted, rtol=1e-14, atol=0)
    assert attention_factor(config) == 1


def test_long_rope_has_two_lists() -> None:
    config = LongRoPEConfig(
        type="LongRoPEConfig",
        **BASE,
        short_factor=ONES,
        long_factor=FACTORS,
        original_context_length=512,
        scaling_factor=0.5,
    )
    plain = frequencies(UnscaledRoPEConfig(type="UnscaledRoPEConfig", **BASE), 1)
    assert np.array_equal(frequencies(config, 512), plain)
    assert np.array_equal(frequencies(config, 513), plain / np.array(FACTORS))
    assert attention_factor(config) == 1, "a factor below 1 has no temperature"
