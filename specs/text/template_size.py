"""Refuses a template whose syntax is so large that compiling it could exhaust the stack.

minijinja bounds nesting, but `1 ~ 1 ~ 1 ...` and `elif` after `elif` nest without brackets: on the
usual stack of 8 MB it fails at 18,000 operators in one tag, or 7,000 branches of one `if`.
"""

import re

from masu.specs.errors import TextError

MAX_SOURCE = 1_000_000
MAX_TAGS = 4_000
MAX_TOKENS_IN_TAG = 2_000

_OPENING = re.compile(r"\{[{%#]")
# Possessive, and the closing quote may be missing: no text makes it backtrack.
_TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*+(?:'|\Z)|"(?:[^"\\]|\\.)*+(?:"|\Z)|\w+|\S""", re.DOTALL)


def check_size(source: str) -> None:
    """Raises TextError for a template beyond any in use."""
    _check("characters", len(source), MAX_SOURCE)
    tags, position = 0, 0
    while opening := _OPENING.search(source, position):
        if opening.group() == "{#":
            end = source.find("#}", opening.end())
            position = len(source) if end < 0 else end + 2
            continue
        tags += 1
        tokens, position = _tag(source, opening.end())
        _check("words in one tag", tokens, MAX_TOKENS_IN_TAG)
    _check("tags", tags, MAX_TAGS)


def _tag(source: str, position: int) -> tuple[int, int]:
    """How many tokens the tag has that is open at `position`, and where it ends."""
    braces = tokens = 0
    for token in _TOKEN.finditer(source, position):
        text, end = token.group(), token.end()
        if braces == 0 and text in "%}" and source.startswith("}", end):
            return tokens, end + 1
        braces = max(0, braces + (text == "{") - (text == "}"))
        tokens += 1
    return tokens, len(source)


def _check(what: str, found: int, limit: int) -> None:
    if found > limit:
        raise TextError(f"the chat template has {found:,} {what}, at most {limit:,} can be read")
