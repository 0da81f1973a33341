"""JSON from outside, read strictly: bounded in size and depth, no duplicate keys, no NaN."""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from masu.specs.errors import MasuError, SchemaError
from masu.specs.regular_file import read_regular

MAX_BYTES = 100_000_000
"""About three times the largest tokenizer.json in use."""
MAX_DEPTH = 64
"""Real files stay under 20; Python's own parser gives up at an unpredictable depth near 1000."""

# Possessive, and the closing quote may be missing: it always matches, so hostile text cannot
# make it backtrack.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def read_json(
    data: bytes,
    where: str,
    *,
    error: type[MasuError] = SchemaError,
    max_bytes: int = MAX_BYTES,
    max_depth: int = MAX_DEPTH,
) -> Any:
    """The value of a JSON text in UTF-8.

    Stricter than `json.loads`: a duplicate key, NaN, a number beyond float64, or half a surrogate
    pair (text that no UTF-8 file can hold) is an error, not a guess.

    Args:
        where: the file, as the messages call it.
        error: the class of every error raised.
        max_depth: how many arrays and objects may lie inside each other.
    """
    if len(data) > max_bytes:
        raise error(f"{where} has {len(data):,} bytes of JSON; at most {max_bytes:,} are read")
    depth = _depth(data)
    if depth > max_depth:
        raise error(f"{where} is nested {depth} levels deep; at most {max_depth} are read")
    value = _parse(_text(data, where, error), where, error)
    if _SURROGATE.search(data):
        _refuse_lone_surrogates(value, where, error)
    return value


def read_json_file(
    path: Path,
    *,
    error: type[MasuError] = SchemaError,
    max_bytes: int = MAX_BYTES,
    max_depth: int = MAX_DEPTH,
) -> Any:
    """`read_json` of a whole file; of a file that is too large, no more than the bound is read."""
    data = read_regular(path, max_bytes, error=error)
    return read_json(data, str(path), error=error, max_bytes=max_bytes, max_depth=max_depth)


def _depth(data: bytes) -> int:
    """The deepest nesting, counted without a stack: brackets outside strings open and close."""
    brackets = np.frombuffer(_STRING.sub(b"", data).translate(None, _NOT_BRACKETS), np.uint8)
    opening = (brackets == ord("[")) | (brackets == ord("{"))
    return int(np.where(opening, 1, -1).cumsum().max(initial=0))


def _text(data: bytes, where: str, error: type[MasuError]) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as cause:
        raise error(f"{where} is not UTF-8: {cause.reason} at byte {cause.start}") from cause


def _parse(text: str, where: str, error: type[MasuError]) -> Any:
    if text.startswith("\ufeff"):
        raise error(f"{where} begins with a byte order mark, which JSON does not allow")
    problems: list[str] = []
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object_reader(problems),
            parse_float=_number_reader(problems),
            parse_constant=lambda word: problems.append(f"the number {word}"),
        )
    except json.JSONDecodeError as cause:
        place = f"line {cause.lineno} column {cause.colno}"
        raise error(f"{where} is not valid JSON: {cause.msg} at {place}") from cause
    except ValueError as cause:  # an integer with more digits than Python converts
        raise error(f"{where} holds a number that cannot be read: {cause}") from cause
    if problems:
        raise error(f"{where} is JSON that readers understand differently", problems=problems)
    return value


def _object_reader(problems: list[str]) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            problems.extend(f"key {key!r} {n} times" for key, n in counts.items() if n > 1)
        return value

    return read


def _number_reader(problems: list[str]) -> Callable[[str], float]:
    def read(digits: str) -> float:
        value = float(digits)
        if abs(value) == float("inf"):
            problems.append(f"the number {digits}, which is beyond float64")
        return value

    return read


def _refuse_lone_surrogates(value: Any, where: str, error: type[MasuError]) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as cause:
        before = cause.object[max(0, cause.start - 30) : cause.start]
        raise error(f"{where} holds half of a surrogate pair, after {before!r}") from cause
