"""Refuses a parser's pattern that can take exponential time: a repeat inside a repeat.

Patterns come with a model and are not trusted, and the engines that run them backtrack. Read as
text, for those of tokenizers (`pattern_work`) are in another dialect than Python's.
"""

import re
from collections.abc import Iterator

from masu.specs.errors import TextError

MAX_PATTERN = 20_000
"""Characters; the longest in use has about a thousand."""

_PART = re.compile(
    r"\\[pPxuN]\{[^}]*\}|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|\[|"
    r"\(\?[:=!>|]|\(\?<[=!]|\(\?P?<\w+>|\(\?[a-zA-Z^-]*[:)]|\(|\)|"
    r"(?:[*+?]|\{\d*,?\d*\})[+?]?|\||.",
    re.DOTALL,
)


def check_pattern(pattern: str, where: str) -> None:
    """Raises TextError for a repeated group that holds another repeat or alternatives."""
    if len(pattern) > MAX_PATTERN:
        raise TextError(f"{where} has {len(pattern):,} characters, at most {MAX_PATTERN:,} are run")
    inner = [False]  # of each open group: whether it holds something of more than one length
    closed = False
    for part in parts(pattern):
        repeats = part[0] in "*+" or (part[0] == "{" and part[1:2] != "" and part != "{")
        if part.startswith("(") and part[-1:] != ")":
            inner.append(False)
        elif part == ")" and len(inner) > 1:
            closed = inner.pop()
            inner[-1] |= closed
            continue
        elif part == "|" and len(inner) > 1:
            inner[-1] = True
        elif repeats and _times(part) > 1:
            if closed and not part.endswith("+", 1):
                raise TextError(f"{where} repeats a group that repeats inside: {pattern:.80}")
            inner[-1] |= not part.endswith("+", 1)
        closed = False


def _times(part: str) -> float:
    """The most repetitions that a quantifier allows; `{3}` has one length and counts as one."""
    if part[0] in "*+":
        return float("inf")
    low, comma, high = part.strip("{}+?").partition(",")
    return 1 if not comma or low == high else float(high or "inf")


def parts(pattern: str) -> Iterator[str]:
    """Openings and ends of groups, quantifiers and items; a character class is one item."""
    place = 0
    while place < len(pattern):
        found = _PART.match(pattern, place)
        if found is None:
            return
        begin, place = place, found.end()
        if found[0] == "[":
            place = _end_of_class(pattern, place)
        yield pattern[begin:place]


def _end_of_class(pattern: str, place: int) -> int:
    depth, first = 1, True
    while place < len(pattern) and depth:
        char = pattern[place]
        place += 2 if char == "\\" else 1
        if char == "[":
            depth += 1
        elif char == "]" and not first:
            depth -= 1
        first = first and char == "^"
    return place
