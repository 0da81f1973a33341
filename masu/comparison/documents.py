"""Differences of JSON documents, each by its path."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

WIDTH = 60
"""Characters that are shown of a value."""


class Change(NamedTuple):
    """A value that only one document has, or that differs."""

    path: str
    message: str


def changes(a: Any, b: Any, path: str = "") -> Iterator[Change]:
    """Each smallest part in which two documents differ; 1, 1.0 and true are three values."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in [*a, *(key for key in b if key not in a)]:
            place = f"{path}.{key}" if path else str(key)
            if key not in b:
                yield Change(place, f"only in A: {shown(a[key])}")
            elif key not in a:
                yield Change(place, f"only in B: {shown(b[key])}")
            else:
                yield from changes(a[key], b[key], place)
    elif isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        for index, (one, other) in enumerate(zip(a, b, strict=True)):
            yield from changes(one, other, f"{path}[{index}]")
    elif type(a) is not type(b) or a != b:
        yield Change(path, f"{shown(a)} in A, {shown(b)} in B")


def shown(value: Any) -> str:
    """A value on one line, cut where it is long; of a list also how long it is."""
    text = json.dumps(value, ensure_ascii=False)
    cut = text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."
    is_long_list = isinstance(value, list | tuple) and len(text) > WIDTH
    return f"{cut} ({len(value)} items)" if is_long_list else cut
