"""Messages about JSON that is not of the schema: each names its place, and only that place."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from golden import GOLDEN

from masu.specs.errors import ConfigError, SchemaError
from masu.specs.generation import GenerationConfig
from masu.specs.model import MODEL_CONFIG
from masu.specs.schema_errors import validate_json

LAYER = "decoder_config.transformer_config.layer_configs[0]"
REASONING = "token_codec_config.reasoning_config"


def golden_config(case: str) -> Any:
    """A whole config, but with one layer."""
    config = json.loads((GOLDEN / case / "engine/config.json").read_text())
    transformer = config["decoder_config"]["transformer_config"]
    transformer["layer_configs"] = transformer["layer_configs"][:1]
    return config


def problems(config: Any) -> tuple[str, ...]:
    with pytest.raises(SchemaError) as caught:
        validate_json(MODEL_CONFIG, json.dumps(config).encode(), "config.json")
    assert "config.json" in caught.value.message
    return caught.value.problems


def change(config: Any, place: str, value: Any) -> None:
    """Sets the value at a place spelled as messages spell it."""
    *path, last = place.replace("[", ".[").split(".")
    for step in path:
        config = config[int(step[1:-1])] if step.startswith("[") else config[step]
    config[int(last[1:-1]) if last.startswith("[") else last] = value


WRONG = {
    f"{LAYER}.mixer_config.head_dim": [
        ("64", 'expected an integer >= 1, found "64"'),
        (0, "expected an integer >= 1, found 0"),
        (64.0, "expected an integer >= 1, found 64.0"),
        (True, "expected an integer >= 1, found true"),
        (2**32, "expected an integer < 4294967296, found 4294967296"),
        ([1, 2], "expected an integer >= 1, found a list of 2"),
        (None, "expected an integer >= 1, found null"),
    ],
    f"{LAYER}.mixer_config.sliding_window_size": [
        (-1, "expected an integer >= 1 or null, found -1"),
    ],
    f"{LAYER}.mixer_config.is_causal": [(1, "expected a boolean, found 1")],
    f"{LAYER}.pre_mlp_norm_config.epsilon": [
        ("1e-5", 'expected a number, found "1e-5"'),
        (True, "expected a number, found true"),
        (10**400, f"expected a finite number, found 1{'0' * 59}..."),
    ],
    f"{LAYER}.pre_mlp_norm_config.upcast_mode": [
        ("full", 'expected one of "only_normalization", "full_layer", found "full"'),
    ],
    f"{LAYER}.pre_mlp_norm_config": [(3, "expected an object, found 3")],
    f"{LAYER}.mlp_config.gate_clipping": [
        ([None], "expected a list of 2 or null, found a list of 1"),
        ([1, 2, 3], "expected a list of 2 or null, found a list of 3"),
    ],
    f"{REASONING}.reasoning_effort_to_field_value.no_reasoning": [
        (3, "expected a string or a boolean, found 3"),
    ],
    "decoder_config.transformer_config.layer_configs": [({}, "expected a list, found an object")],
    "generation_config.banned_tokens": [
        ([0] * 17, "expected a list of at most 16 or null, found a list of 17"),
    ],
}


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [(place, value, text) for place, cases in WRONG.items() for value, text in cases],
)
def test_wrong_value(place: str, value: Any, sentence: str) -> None:
    config = golden_config("qwen3")
    change(config, place, value)
    assert problems(config) == (f"{place}: {sentence}",)


TAGS = {
    "atentionConfig": 'found "atentionConfig"; did you mean "AttentionConfig"?',
    "Recurrent": 'found "Recurrent"',
    7: "found 7",
}


@pytest.mark.parametrize(("tag", "ending"), TAGS.items())
def test_wrong_type_tag_lists_the_known_ones(tag: Any, ending: str) -> None:
    config = golden_config("qwen3")
    change(config, f"{LAYER}.mixer_config.type", tag)
    (problem,) = problems(config)
    known = "AttentionConfig, DeltaNetConfig, "
    assert problem.startswith(f"{LAYER}.mixer_config.type: expected one of {known}")
    assert ", ShortConvConfig, " in problem
    assert problem.endswith(f", {ending}")


def test_wrong_kind_of_layer() -> None:
    """The engine's own kind has no `type`, so that any other value names a kind of masu's."""
    config = golden_config("qwen3")
    change(config, f"{LAYER}.type", "ParalelLayerConfig")
    (problem,) = problems(config)
    assert problem.startswith(f"{LAYER}.type: expected one of PostNormLayerConfig, ")
    assert problem.endswith('found "ParalelLayerConfig"; did you mean "ParallelLayerConfig"?')


@pytest.mark.parametrize("tag", [7, None, ["a"]])
def test_kind_of_layer_that_is_no_name(tag: Any) -> None:
    config = golden_config("qwen3")
    change(config, f"{LAYER}.type", tag)
    (problem,) = problems(config)
    assert problem.startswith(f"{LAYER}.type: expected one of PostNormLayerConfig, ")


def test_layer_of_another_kind_has_fields_of_its_own() -> None:
    config = golden_config("qwen3")
    layer = config["decoder_config"]["transformer_config"]["layer_configs"][0]
    post = {"type": "PostNormLayerConfig", "mlp_config": 3, "pre_mlp_norm_config": None}
    config["decoder_config"]["transformer_config"]["layer_configs"][0] = {
        **post, "mixer_config": layer["mixer_config"], "rope_config": layer["rope_config"]
    }  # fmt: skip
    assert problems(config) == (
        f"{LAYER}.post_mixer_norm_config: missing; expected an object",
        f"{LAYER}.mlp_config: expected an object, found 3",
        f"{LAYER}.post_mlp_norm_config: missing; expected an object",
        f'{LAYER}.pre_mlp_norm_config: unknown field; did you mean "post_mlp_norm_config"?',
    )


def test_a_layer_that_is_no_object() -> None:
    config = golden_config("qwen3")
    change(config, LAYER, 3)
    assert problems(config) == (f"{LAYER}: expected an object, found 3",)


def test_wrong_tag_of_a_type_without_alternatives() -> None:
    config = golden_config("qwen3")
    layer = config["decoder_config"]["transformer_config"]["layer_configs"][0]
    inner = {**layer["mixer_config"], "type": "ShortConvConfig"}
    scaled = {"type": "PositionScaledAttentionConfig", "attention_config": inner}
    change(config, f"{LAYER}.mixer_config", {**scaled, "beta": 0.1, "original_context_length": 8})
    place = f"{LAYER}.mixer_config.attention_config.type"
    assert problems(config) == (f'{place}: expected "AttentionConfig", found "ShortConvConfig"',)


def test_no_type_tag() -> None:
    config = golden_config("qwen3")
    del config["token_codec_config"]["type"]
    known = "ChatCodecConfig, RawTextCodecConfig"
    assert problems(config) == (f"token_codec_config.type: missing; expected one of {known}",)


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ([1], "expected an object, found a list of 1"),
        (None, "expected an object, found null"),
    ],
)
def test_not_an_object_at_all(config: Any, problem: str) -> None:
    assert problems(config) == (problem,)


def test_unknown_field_with_a_suggestion() -> None:
    config = golden_config("qwen3")
    change(config, f"{LAYER}.mixer_config.head_dims", 64)
    change(config, "decoder_config.zzz", None)
    assert problems(config) == (
        f'{LAYER}.mixer_config.head_dims: unknown field; did you mean "head_dim"?',
        "decoder_config.zzz: unknown field",
    )


def test_unknown_field_called_like_the_type_of_its_object() -> None:
    config = golden_config("qwen3")
    change(config, f"{LAYER}.mixer_config.AttentionConfig", 1)
    assert problems(config) == (f"{LAYER}.mixer_config.AttentionConfig: unknown field",)


def test_missing_fields() -> None:
    config = golden_config("qwen3")
    mixer = config["decoder_config"]["transformer_config"]["layer_configs"][0]["mixer_config"]
    del mixer["num_heads"], mixer["scale"]
    assert problems(config) == (
        f"{LAYER}.mixer_config.num_heads: missing; expected an integer >= 1",
        f"{LAYER}.mixer_config.scale: missing;"
        " every field is required, write null if there is no value",
    )


def test_unknown_key_of_a_map() -> None:
    config = golden_config("qwen3")
    change(config, f"{REASONING}.reasoning_effort_to_field_value.huge", True)
    known = '"xhigh", "high", "medium", "low", "no_reasoning"'
    assert problems(config) == (
        f"{REASONING}.reasoning_effort_to_field_value.huge:"
        f' expected one of {known}, found the key "huge"',
    )


def test_rule_between_fields() -> None:
    config = golden_config("qwen3")
    norm = {"scale_offset": 1.0, "has_scale": False}
    config["decoder_config"]["transformer_config"]["output_norm_config"] |= norm
    place = "decoder_config.transformer_config.output_norm_config"
    assert problems(config) == (f"{place}: scale_offset must be null when has_scale is false",)


@pytest.mark.parametrize("case", ["llama", "qwen3_5", "llamba"])
def test_heads_share_groups_evenly(case: str) -> None:
    config = golden_config(case)
    change(config, f"{LAYER}.mixer_config.num_groups", 3)
    said = "num_heads must be a multiple of num_groups, found 4 and 3"
    assert problems(config) == (f"{LAYER}.mixer_config: {said}",)


def test_error_class_and_json_syntax_are_the_callers() -> None:
    with pytest.raises(ConfigError, match=r"here\.json"):
        validate_json(GenerationConfig, b'{"top_k": 1', "here.json", ConfigError)
    with pytest.raises(ConfigError) as caught:
        validate_json(GenerationConfig, b'{"top_k": 1, "top_k": 2}', "here.json", ConfigError)
    assert "top_k" in str(caught.value)


def places(value: Any, path: str = "") -> Iterator[str]:
    """Every field of a document, wherever it is."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        place = f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}".lstrip(".")
        yield place
        if isinstance(item, dict | list):
            yield from places(item, place)


@pytest.mark.parametrize("case", ["gpt_oss", "gemma4-text"])
def test_every_place_is_named_and_no_other(case: str) -> None:
    """No value of any field is right as a list of lists of lists."""
    config = golden_config(case)
    for place in places(config):
        broken = deepcopy(config)
        change(broken, place, [[[]]])
        found = problems(broken)
        assert found, place
        assert all(line.startswith((f"{place}: ", f"{place}[")) for line in found), (place, found)
