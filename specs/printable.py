"""Text that holds names out of files, as a terminal may show it: no control characters, and short.

A tensor, a shard or a key of a hostile file can be called anything, an ANSI escape or a megabyte.
"""

import re
from collections.abc import Sequence

MOST_LINES = 40
LONGEST_WORD, LONGEST_LINE = 400, 4000

_LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1},}}")


def printable(text: str) -> str:
    """One line: what is not printable is escaped, long names and long lines are cut."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else _escaped(c) for c in text)
    if len(text) > LONGEST_WORD:
        text = _LONG_WORD.sub(lambda word: shortened(word[0], LONGEST_WORD), text)
    return shortened(text, LONGEST_LINE)


def printable_lines(text: str) -> str:
    """The same of a text that has several lines on purpose."""
    return "\n".join(map(printable, text.split("\n")))


def shortened(text: str, most: int) -> str:
    """Both ends of a text that is longer."""
    half = (most - 3) // 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


def capped(lines: Sequence[str]) -> Sequence[str]:
    """The first lines, and how many more there are."""
    more = len(lines) - MOST_LINES
    return lines if more <= 0 else (*lines[:MOST_LINES], f"and {more:,} more")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
