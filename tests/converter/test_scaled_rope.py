"""YaRN with an attention factor of its own: the engine's rotation, and a scale that makes up."""

import math
from typing import Any

import pytest

from masu.converter.config import read_config
from masu.converter.families import load_family
from masu.converter.rope import read_rope, read_scaled_rope
from masu.specs.blocks.rope import YARNRoPEConfig
from masu.specs.errors import ConfigError

HEAD = 16
ENGINES = 0.1 * math.log(8) + 1
SIZES: dict[str, Any] = {"head_dim": HEAD, "max_positions": 256}


def yarn(**changes: Any) -> dict[str, Any]:
    given = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0}
    return {**given, "original_max_position_embeddings": 32, **changes}


@pytest.mark.parametrize(
    ("parameters", "factor"),
    [
        (yarn(attention_factor=1.1), 1.1),
        (yarn(attention_factor=1.1, mscale=1.0, mscale_all_dim=1.0), 1.1),
        (yarn(mscale=1.0, mscale_all_dim=1.0), 1.0),
        (yarn(mscale=0.7, mscale_all_dim=1.0), (0.07 * math.log(8) + 1) / ENGINES),
        (yarn(factor=1.0, attention_factor=1.5), 1.5 * ENGINES),
    ],
)
def test_scale_of_the_scores(parameters: dict[str, Any], factor: float) -> None:
    """`factor` is what transformers multiplies cosines and sines by, the engine by `ENGINES`."""
    rope, scale = read_scaled_rope(parameters, **SIZES)
    assert isinstance(rope, YARNRoPEConfig)
    assert scale == pytest.approx(HEAD**-0.5 * (factor / ENGINES) ** 2)
    with pytest.raises(ConfigError, match="attention_factor"):
        read_rope(parameters, **SIZES)


@pytest.mark.parametrize(
    "parameters",
    [
        None,
        {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0},
        yarn(),
        yarn(attention_factor=ENGINES),
        yarn(mscale=0.7),
        yarn(mscale=0.0, mscale_all_dim=0.0),
    ],
)
def test_nothing_to_make_up_for(parameters: dict[str, Any] | None) -> None:
    assert read_scaled_rope(parameters, **SIZES) == (read_rope(parameters, **SIZES), None)


def test_the_older_name_of_the_type() -> None:
    assert read_rope(yarn(type="yarn"), **SIZES) == read_rope(yarn(), **SIZES)
    with pytest.raises(ConfigError, match="type: expected no such key, found 'linear'"):
        read_rope(yarn(type="linear"), **SIZES)


def decoder(family: str, **changes: Any) -> Any:
    """The engine model of a tiny config with other rotary parameters."""
    found = load_family(family)
    rope = {**found.tiny["rope_parameters"], **changes}
    rope = {key: value for key, value in rope.items() if value is not None}
    config, _ = read_config(found.config, {**found.tiny, "rope_parameters": rope}, family)
    return found.decoder(config)


@pytest.mark.parametrize(
    "changes",
    [
        {"llama_4_scaling_beta": None},
        {"llama_4_scaling_beta": "0.1"},
        {"llama_4_scaling_beta": True},
        {"original_max_position_embeddings": None},
    ],
)
def test_ministral_says_how_its_queries_grow(changes: dict[str, Any]) -> None:
    assert decoder("ministral3")
    with pytest.raises(ConfigError, match="growth of the queries"):
        decoder("ministral3", **changes)


def test_nanochat_cannot_norm_before_a_rotation_that_stretches() -> None:
    assert decoder("nanochat", rope_type="linear", factor=2.0)
    with pytest.raises(ConfigError, match="rope_type: expected default, linear or llama3"):
        decoder("nanochat", **yarn())
