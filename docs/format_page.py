"""Prints docs/format-fields.md, every field of every JSON text: `python docs/format_page.py`."""

import inspect
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from masu.specs.fingerprints import Fingerprints
from masu.specs.formats import WEIGHT_FORMAT
from masu.specs.manifest import Manifest
from masu.specs.model import MODEL_CONFIG
from masu.specs.report import Report
from masu.specs.signature import Signature

INTRODUCTION = """# The format, field by field

Made from the schemas in `specs` by `docs/format_page.py`. Every field is required, also where its
value may be null; a field that is not here is refused. `masu schema` prints the same for programs.
What the files are for, and which constructs no engine has: [the package format](format.md)."""

TEXTS = (
    ("config.json", "The model; its `type` says which of the first three it is.", MODEL_CONFIG),
    (
        "Weight formats",
        "The texts `<matrix>.spec` in the metadata of `model.safetensors`.",
        WEIGHT_FORMAT,
    ),
    ("manifest.json", "Where the package came from.", TypeAdapter(Manifest)),
    ("fingerprints.json", "What it computed when it was made.", TypeAdapter(Fingerprints)),
    ("report.json", "What was measured of it.", TypeAdapter(Report)),
    ("signature.json", "Who vouches for it.", TypeAdapter(Signature)),
)

SCALARS = {
    "boolean": "true or false", "integer": "integer", "number": "number", "string": "text",
    "null": "null", "object": "object",
}  # fmt: skip

ANY = "JsonValue"
"""pydantic's name for whatever JSON can spell."""

Schema = Mapping[str, Any]


def page() -> Iterator[str]:
    """Paragraphs: a section for each text, below it one for each kind of object."""
    yield INTRODUCTION
    for title, sentence, adapter in TEXTS:
        yield f"## {title}\n\n{sentence}"
        schema = adapter.json_schema()
        for definition in _in_order(schema):
            yield from _section(definition)


def _in_order(schema: Schema) -> Iterator[Schema]:
    """Each definition once, those first that are met first from the root on."""
    definitions = schema.get("$defs", {})
    if "properties" in schema:
        yield schema
    waiting, seen = _references(schema, skip="$defs"), set[str]()
    while waiting:
        name = waiting.pop(0)
        if name not in seen and name != ANY:
            seen.add(name)
            yield definitions[name]
            waiting = _references(definitions[name]) + waiting


def _references(value: Any, skip: str = "") -> list[str]:
    if isinstance(value, list):
        return [name for item in value for name in _references(item)]
    if not isinstance(value, Mapping):
        return []
    own = [_name(value["$ref"])] if isinstance(value.get("$ref"), str) else []
    parts = (item for key, item in value.items() if key not in (skip, "discriminator"))
    return own + [name for item in parts for name in _references(item)]


def _name(reference: str) -> str:
    return reference.removeprefix("#/$defs/")


def _section(definition: Schema) -> Iterator[str]:
    title = definition["title"]
    prose, told = _documented(definition.get("description", ""))
    yield f"### {title}"
    if prose:
        yield prose
    rows = [
        f"| `{name}` | {_kind(field)} | {told.get(name) or meaning(title, name)} |"
        for name, field in definition["properties"].items()
    ]
    yield "\n".join(("| field | value | meaning |", "|---|---|---|", *rows))


def meaning(title: str, name: str) -> str:
    """What the list of meanings has for a field of a class; a field without one is an error."""
    if name in ("type", "kind"):
        return "which of its kind this is"
    found = _meanings().get(title, {}).get(name) or _meanings().get(name)
    if not isinstance(found, str):
        raise SystemExit(f"{title}.{name}: say what it means, in docs/format_meanings.toml")
    return found


@cache
def _meanings() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("format_meanings.toml").read_text("utf-8"))


def _documented(docstring: str) -> tuple[str, dict[str, str]]:
    """A docstring's own sentences, and what it says of each field."""
    text = inspect.cleandoc(docstring)
    prose, _, listed = text.partition("Attributes:\n")
    prose = prose.partition("Raises:\n")[0].strip()
    listed = textwrap.dedent(listed.partition("\n\n")[0])
    entries = re.findall(r"^(\w[\w, ]*): (.*(?:\n +.*)*)", listed, re.M)
    return " ".join(prose.split()), {
        name: _cell(meaning) for names, meaning in entries for name in names.split(", ")
    }


def _kind(schema: Schema) -> str:
    """What values a field may have, in words; objects are links to their sections."""
    if "$ref" in schema:
        name = _name(schema["$ref"])
        return "any JSON" if name == ANY else f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(map(_kind, schema[key])))
    if "const" in schema:
        return f"`{_spelled(schema['const'])}`"
    if "enum" in schema:
        return " or ".join(f"`{_spelled(value)}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return _list(schema)
    if "additionalProperties" in schema:
        return f"object of {_kind(schema['additionalProperties'])}"
    return SCALARS.get(schema.get("type", ""), "any JSON") + _bounds(schema)


def _list(schema: Schema) -> str:
    if "prefixItems" in schema:
        return f"list of {', '.join(map(_kind, schema['prefixItems']))}"
    if "items" not in schema:
        return "empty list"
    kind = _kind(schema["items"])
    return f"list of {f'({kind})' if ' or ' in kind else kind}"


def _bounds(schema: Schema) -> str:
    """Limits that say something; those of stored integer types are left out."""
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    parts = [
        *([f"at least {low:g}"] if low is not None else []),
        *([f"above {above:g}"] if above is not None else []),
        *([f"at most {high:g}"] if high is not None else []),
        *([f"below {below:g}"] if below is not None and below < 2**32 else []),
        *([f"of the form `{schema['pattern']}`"] if "pattern" in schema else []),
    ]
    return f" {', '.join(parts)}" if parts else ""


def _spelled(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    print("\n\n".join(page()))
