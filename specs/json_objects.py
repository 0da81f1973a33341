"""Every object inside a JSON document: to look at, or to rewrite."""

from collections.abc import Callable, Iterator
from typing import Any


def objects(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each object with its place (`layer_configs[0].mixer_config`), outer ones first."""
    if isinstance(value, dict):
        yield path, value
        for key, item in value.items():
            yield from objects(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from objects(item, f"{path}[{index}]")


def rewritten(value: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """The document with `change` applied to each of its objects, inner ones first."""
    if isinstance(value, dict):
        return change({key: rewritten(item, change) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return [rewritten(item, change) for item in value]
    return value
