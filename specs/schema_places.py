"""A place in a JSON document, seen together with what its JSON schema allows there."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Schema = Mapping[str, Any]

LONGEST_QUOTE = 60


def quoted(value: Any) -> str:
    """A JSON value as it stands in the file, shortened."""
    text = json.dumps(value)
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}..."


@dataclass(frozen=True)
class SchemaPlace:
    """One value of a document, its schema, and the named definitions that schemas refer to."""

    schema: Schema
    value: Any
    definitions: Mapping[str, Schema]

    @classmethod
    def root(cls, schema: Schema, value: Any) -> "SchemaPlace":
        return cls(schema, value, schema.get("$defs", {}))

    def at(self, path: Iterable[str | int]) -> "SchemaPlace":
        """The place further down; its value is None where the document has none."""
        place = self
        for step in path:
            place = place._item(step) if isinstance(step, int) else place._field(step)
        return place

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(self._branch.get("properties", ()))

    @property
    def tags(self) -> tuple[str, ...]:
        """The values that `type` may have in this tagged union."""
        return tuple(tag for tag in self._tagged(self._branch) if tag is not None)

    @property
    def is_nullable(self) -> bool:
        return {"type": "null"} in self._resolved(self.schema).get("anyOf", ())

    @property
    def expected(self) -> str:
        return self._described(self.schema)

    @property
    def expected_key(self) -> str:
        """What the keys of this open map may be."""
        return self._described(self._branch["propertyNames"])

    @property
    def found(self) -> str:
        if isinstance(self.value, dict):
            return "an object"
        if isinstance(self.value, list):
            return f"a list of {len(self.value)}"
        return quoted(self.value)

    @property
    def _branch(self) -> Schema:
        """The schema of this object or list: the branch of a nullable or tagged union it is in."""
        node = self._resolved(self.schema)
        for option in node.get("anyOf", ()):
            resolved = self._resolved(option)
            if "oneOf" in resolved or resolved.get("type") in ("object", "array"):
                node = resolved
        if not isinstance(self.value, dict):
            return node
        tag = self.value.get("type")
        named = isinstance(tag, str) or "type" not in self.value
        return self._tagged(node).get(tag, node) if named else node

    def _tagged(self, node: Schema) -> dict[str | None, Schema]:
        """The branches of a tagged union by their `type`; None is that of the one without."""
        branches = [self._resolved(option) for option in node.get("oneOf", ())]
        return {_tag(branch): branch for branch in branches}

    def _field(self, name: str) -> "SchemaPlace":
        branch = self._branch
        schema = branch.get("properties", {}).get(name) or branch.get("additionalProperties")
        value = self.value.get(name) if isinstance(self.value, dict) else None
        return SchemaPlace(schema or {}, value, self.definitions)

    def _item(self, index: int) -> "SchemaPlace":
        branch = self._branch
        fixed = branch.get("prefixItems", ())
        schema = fixed[index] if index < len(fixed) else branch.get("items", {})
        return SchemaPlace(schema, self.value[index], self.definitions)

    def _resolved(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            schema = self.definitions[schema["$ref"].removeprefix("#/$defs/")]
        return schema

    def _described(self, schema: Schema) -> str:
        schema = self._resolved(schema)
        if "anyOf" in schema:
            return " or ".join(self._described(option) for option in schema["anyOf"])
        if "const" in schema:
            return quoted(schema["const"])
        if "enum" in schema:
            return f"one of {', '.join(map(quoted, schema['enum']))}"
        if "oneOf" in schema:
            return "an object"
        return _described_type(schema, self.value)


def _tag(branch: Schema) -> str | None:
    return branch["properties"].get("type", {}).get("const")


def _described_type(schema: Schema, found: Any) -> str:
    match schema.get("type"):
        case "integer":
            return f"an integer {_bound(schema, found)}"
        case "number":
            # JSON can spell numbers that no float holds (1e999).
            return "a finite number" if type(found) in (int, float) else "a number"
        case "string":
            return (
                f"a string of the form {schema['pattern']}" if "pattern" in schema else "a string"
            )
        case "boolean":
            return "a boolean"
        case "array":
            return f"a list{_length(schema)}"
        case "object":
            return "an object"
        case "null":
            return "null"
    return "a JSON value"


def _bound(schema: Schema, found: Any) -> str:
    """The lower bound; the upper one (that of the stored integer type) only when it is broken."""
    limit = schema.get("exclusiveMaximum")
    if limit is not None and isinstance(found, int) and found >= limit:
        return f"< {limit}"
    lowest = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
    return f">= {lowest}"


def _length(schema: Schema) -> str:
    least, most = schema.get("minItems"), schema.get("maxItems")
    if most is None:
        return ""
    return f" of {most}" if least == most else f" of at most {most}"
