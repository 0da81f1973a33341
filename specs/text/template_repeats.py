"""Refuses a template that may repeat a list very often, which its counters notice only afterwards.

`[1] * 99999999` costs one instruction, and printing it builds the whole text before the output is
counted: seconds and 300 MB. A repeated string is counted at once. So one side of every `*` has to
be a string, or a small number as it stands; all these numbers of a template together are bounded.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from masu.specs.errors import TextError

MAX_REPEATS = 10_000

_QUOTES = ("'", '"')
_NUMBER = re.compile(r"[0-9]+")


def check_repeats(tags: Sequence[Sequence[str]], macros: Collection[str]) -> None:
    """Raises TextError; templates in use repeat strings, and double an index at most.

    Args:
        tags: the tokens of every tag.
        macros: names that can call themselves.
    """
    repeats = 1
    for tag in tags:
        factors = [_factor(tag, place) for place in _products(tag)]
        counted = [factor for factor in factors if factor is not None]
        again = any(call in macros and after == "(" for call, after in pairwise(tag))
        if counted and (again or tag[2:3] == ["."]):
            raise TextError("the chat template multiplies what it multiplied before, over and over")
        for factor in counted:
            repeats *= max(1, factor)
    if repeats > MAX_REPEATS:
        raise TextError(f"the chat template multiplies by {repeats:,} in all, too often for a list")


def _products(tag: Sequence[str]) -> Iterator[int]:
    """Places of `*` between two values; `**` is for numbers alone, and `*args` no product."""
    for place, token in enumerate(tag):
        around = (*tag[max(place - 1, 0) : place], *tag[place + 1 : place + 2])
        if token == "*" and "*" not in around and around[:1] not in (("(",), (",",)):
            yield place


def _factor(tag: Sequence[str], place: int) -> int | None:
    """The number on one side; None where a side is a string, which is counted."""
    before, after = tag[place - 1] if place else "", tag[place + 1] if place + 1 < len(tag) else ""
    is_plain = tag[place + 2 : place + 3] not in (["|"], ["."], ["["], ["("])
    if before.startswith(_QUOTES) or (after.startswith(_QUOTES) and is_plain):
        return None
    is_part = place > 1 and tag[place - 2] == "."
    numbers = [before] * (not is_part) + [after] * is_plain
    found = [int(number) for number in numbers if _NUMBER.fullmatch(number)]
    if not found:
        raise TextError("the chat template multiplies by what is no string and no plain number")
    return max(found)
