"""Validation of JSON against a strict schema, with errors that name the place in the file."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from masu.specs.errors import MasuError, SchemaError
from masu.specs.jsonfile import read_json
from masu.specs.schema_places import SchemaPlace, quoted

T = TypeVar("T")
Step = str | int


def validate_json(
    schema: TypeAdapter[T] | type[T],
    data: bytes,
    where: str,
    error: type[MasuError] = SchemaError,
) -> T:
    """Parses `data` strictly; `where` names the file in messages.

    Raises:
        error: the data are not JSON, or not of the schema. One problem per place, such as
            `layer_configs[0].mixer_config.head_dim: expected an integer >= 1, found "64"`.
    """
    parsed = read_json(data, where, error=error)
    adapter = schema if isinstance(schema, TypeAdapter) else TypeAdapter(schema)
    try:
        return adapter.validate_json(data)
    except ValidationError as invalid:
        problems = schema_problems(invalid, adapter, parsed)
        raise error(f"{where} is not of the format", problems=problems) from None


def schema_problems(
    invalid: ValidationError, adapter: TypeAdapter[Any], data: Any
) -> tuple[str, ...]:
    """One line for each place at fault, in the order in which pydantic met them.

    What was expected is said by the JSON schema of the place: pydantic reports one broken rule
    at a time, and of a value of the wrong type neither its bounds nor that null would do.
    """
    root = SchemaPlace.root(adapter.json_schema(), data)
    lines = (_line(error, root) for error in invalid.errors(include_url=False))
    # A value that fits no branch of a plain union is reported once per branch.
    return tuple(dict.fromkeys(lines))


def dotted(path: Iterable[Step]) -> str:
    """`("layers", 0, "norm")` as `layers[0].norm`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """`; did you mean "x"?`, or nothing where no known word is close."""
    by_lower_case = {name.lower(): name for name in known}
    close = get_close_matches(str(word).lower(), list(by_lower_case), n=1, cutoff=0.7)
    return f"; did you mean {quoted(by_lower_case[close[0]])}?" if close else ""


def _line(error: Mapping[str, Any], root: SchemaPlace) -> str:
    path, sentence = _finding(error, root)
    return f"{dotted(path)}: {sentence}" if path else sentence


def _finding(error: Mapping[str, Any], root: SchemaPlace) -> tuple[tuple[Step, ...], str]:
    """The place in the file, and what is wrong there."""
    kind, path = error["type"], _path(error, root.value)
    match kind:
        case "union_tag_invalid" | "union_tag_not_found":
            return (*path, "type"), _wrong_tag(root.at(path))
        case "extra_forbidden":
            known = root.at(path[:-1]).fields
            return path, f"unknown field{did_you_mean(path[-1], known)}"
        case "missing" if isinstance(path[-1], str):
            return path, _missing(root.at(path))
        case "missing":  # an item of a list with a fixed length
            path = path[:-1]
        case "value_error":
            return path, str(error["ctx"]["error"])
    if error["loc"] and error["loc"][-1] == "[key]":
        *_, key = path
        return path, f"expected {root.at(path[:-1]).expected_key}, found the key {quoted(key)}"
    place = root.at(path)
    return path, f"expected {place.expected}, found {place.found}"


def _path(error: Mapping[str, Any], data: Any) -> tuple[Step, ...]:
    """pydantic's `loc` without what is not in the file: tags of unions and names of branches."""
    path: list[Step] = []
    names_a_field = error["type"] in ("missing", "extra_forbidden")
    for index, step in enumerate(error["loc"]):
        is_last = index == len(error["loc"]) - 1
        is_key = isinstance(data, dict) and step in data and step != data.get("type")
        is_index = isinstance(data, list) and isinstance(step, int)
        if is_last and names_a_field:
            path.append(step)
        elif is_key or is_index:
            path.append(step)
            data = data[step]
    return tuple(path)


def _missing(place: SchemaPlace) -> str:
    if place.is_nullable:
        return "missing; every field is required, write null if there is no value"
    return f"missing; expected {place.expected}"


def _wrong_tag(place: SchemaPlace) -> str:
    expected = f"expected one of {', '.join(place.tags)}"
    if "type" not in place.value:
        return f"missing; {expected}"
    tag = place.value["type"]
    return f"{expected}, found {quoted(tag)}{did_you_mean(tag, place.tags)}"
