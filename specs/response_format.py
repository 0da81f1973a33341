"""The chat codec between two releases: one object where the fields of the parser should stand.

For a time lalamo wrote `response_format`, an object with the pattern of a reply that reasons, in
place of `output_parser_regex` and `end_of_thinking_tag`. No released engine reads it.
"""

from typing import Any

from masu.specs.errors import EngineError, SchemaError

FIELD = "response_format"
PATTERN, TAG = "reasoning_pattern", "end_of_thinking_tag"
KNOWN = frozenset({"type", PATTERN, TAG})


def has_response_format(config: Any) -> bool:
    """Whether a parsed config.json is of that time."""
    codec = config.get("token_codec_config") if isinstance(config, dict) else None
    return isinstance(codec, dict) and FIELD in codec


def refuse_response_format(config: Any, where: str) -> None:
    """Raises EngineError, which says what the field is and what to do about it."""
    if has_response_format(config):
        problem = (
            f"token_codec_config.{FIELD}: written between two releases, which no engine loads;"
            f" expected output_parser_regex and {TAG} (`masu migrate` writes them)"
        )
        raise EngineError(
            f"{where} was written between two releases of the format",
            problems=[problem],
            hint="masu migrate PACKAGE -o DIR",
        )


def without_response_format(config: Any) -> Any:
    """The same config with the fields that the object stands for, in their places.

    Raises:
        SchemaError: the object, or what stands beside it, is not what is known of that time.
    """
    if not has_response_format(config):
        return config
    codec = dict(config["token_codec_config"])
    pattern, tag = _read(codec.pop(FIELD))
    beside = sorted({"output_parser_regex", TAG} & codec.keys())
    if beside:
        problems = [f"token_codec_config.{key}: stands beside {FIELD}" for key in beside]
        raise SchemaError("config.json says twice how replies are parsed", problems=problems)
    repaired: dict[str, Any] = {}
    for key, value in codec.items():
        repaired[key] = value
        if key == "prompt_template":
            repaired["output_parser_regex"] = pattern
        if key == "bos_token":
            repaired[TAG] = tag
    return {**config, "token_codec_config": repaired}


def _read(value: Any) -> tuple[Any, Any]:
    """Pattern and tag; whether they are strings is for the schema to say."""
    if value is None:
        return None, None
    place = f"token_codec_config.{FIELD}"
    if not isinstance(value, dict) or PATTERN not in value:
        problem = f"{place}: expected null or an object with {PATTERN}"
        raise SchemaError("config.json cannot be repaired", problems=[problem])
    problems = [f"{place}.{key}: not known, so it would be lost" for key in value.keys() - KNOWN]
    if problems:
        raise SchemaError("config.json cannot be repaired", problems=sorted(problems))
    return value[PATTERN], value.get(TAG)
