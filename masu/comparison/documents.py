"""Differences of JSON documents, each by its path."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

WIDTH = 60
"""Characters that are shown of a value."""


class Absent:
    """What a document has where it has no such key."""


class Pair(NamedTuple):
    """What two documents have in one place; `Absent` where one of them has none."""

    path: str
    a: Any
    b: Any


class Change(NamedTuple):
    """A value that only one document has, or that differs."""

    path: str
    message: str


def pairs(a: Any, b: Any, path: str = "") -> Iterator[Pair]:
    """Each smallest part in which two documents differ; 1, 1.0 and true are three values."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in [*a, *(key for key in b if key not in a)]:
            place = f"{path}.{key}" if path else str(key)
            if key in a and key in b:
                yield from pairs(a[key], b[key], place)
            else:
                yield Pair(place, a.get(key, Absent), b.get(key, Absent))
    elif isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        for index, (one, other) in enumerate(zip(a, b, strict=True)):
            yield from pairs(one, other, f"{path}[{index}]")
    elif type(a) is not type(b) or a != b:
        yield Pair(path, a, b)


def changes(a: Any, b: Any, path: str = "") -> Iterator[Change]:
    """The same, told of documents A and B."""
    for place, one, other in pairs(a, b, path):
        if other is Absent:
            yield Change(place, f"only in A: {shown(one)}")
        elif one is Absent:
            yield Change(place, f"only in B: {shown(other)}")
        else:
            yield Change(place, f"{shown(one)} in A, {shown(other)} in B")


def shown(value: Any) -> str:
    """A value on one line, cut where it is long; of a list also how long it is."""
    text = json.dumps(value, ensure_ascii=False)
    cut = text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."
    is_long_list = isinstance(value, list | tuple) and len(text) > WIDTH
    return f"{cut} ({len(value)} items)" if is_long_list else cut
