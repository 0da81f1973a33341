"""Bounds the work of a tokenizer's pattern by its form: one repeat at most can be given back.

A backtracking engine (tokenizers has Oniguruma) tries every way in which the parts of a pattern can
share a text, once something after them fails. Two repeats that can be given back so cost the
square of the text for every place where a match may begin, and thirty optional parts cost 2**30.
Patterns in use give back one repeat and a few choices, as `\\s+(?!\\S)`: the length of a run.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from masu.specs.errors import TextError
from masu.specs.text.pattern_bounds import MAX_PATTERN, parts

MAX_CHOICES = 256
"""Ways in which all short parts together can match at one place; in use there are at most 20."""
MAX_DEPTH, MAX_PATHS = 40, 256
MANY = 64
"""A part that can have more lengths than this counts as a repeat without end."""

_FOREIGN = ("\\g", "\\k", "\\c", "\\C", "\\M", *(f"\\{digit}" for digit in range(10)))
"""Calls, back references, and characters by codes that are read in several ways."""


class Item(NamedTuple):
    """A part of a pattern that is matched in one go.

    Attributes:
        text: of one character of it; None where it is a group.
        choices: lengths, or alternatives, that it can have at one place.
        can_fail: there are texts at which it does not match.
        has_ways: one text can be shared among its repetitions in several ways.
    """

    text: str | None
    choices: float = 1
    can_fail: bool = True
    has_ways: bool = False


Path = tuple[Item, ...]


def repeats_of(pattern: str, where: str) -> list[str | None]:
    """Of each repeat that can be given back the text of one character; None for a group.

    Its work is the sum of the squares of the lengths of its runs in a text, at most.

    Raises:
        TextError: it can take more than that, or is written in a way that is not followed.
    """
    if len(pattern) > MAX_PATTERN:
        raise TextError(f"{where} has {len(pattern):,} characters, at most {MAX_PATTERN:,} are run")
    reader = _Reader(pattern, where)
    paths = reader.alternatives(0)
    if reader.next is not None:
        raise reader.error("closes a group that is not open")
    paths += reader.repeated
    found = {item.text: None for path in paths for item in _given_back(path, reader)}
    return list(found)


def _given_back(path: Path, reader: "_Reader") -> list[Item]:
    """The repeats that something after them can make the engine shorten."""
    last = max((i for i, item in enumerate(path) if item.can_fail), default=0)
    repeats = [item for item in path[:last] if _is_repeat(item)]
    choices = math.prod(item.choices for item in path[:last] if not _is_repeat(item))
    if any(item.has_ways for item in repeats):
        raise reader.error("repeats what can match in several ways, and can fail after it")
    if len(repeats) > 1:
        raise reader.error(f"has {len(repeats)} repeats in a row, of which all can be given back")
    if choices > MAX_CHOICES:
        raise reader.error(f"has {choices:,} ways to match at one place")
    return repeats


class _Reader:
    """Reads a pattern into its paths: what is matched in turn, for each alternative.

    Attributes:
        repeated: paths inside groups that are repeated, each of which can fail by itself.
    """

    def __init__(self, pattern: str, where: str) -> None:
        self._pattern, self._where = pattern, where
        self._parts, self._place = list(parts(pattern)), 0
        self.repeated: list[Path] = []

    @property
    def next(self) -> str | None:
        return self._parts[self._place] if self._place < len(self._parts) else None

    def error(self, what: str) -> TextError:
        return TextError(
            f"{self._where} {what}: {self._pattern:.80}",
            hint="patterns that could take very long on some text are not run",
        )

    def alternatives(self, depth: int) -> list[Path]:
        """Up to the end of the group, which is left to be read."""
        if depth > MAX_DEPTH:
            raise self.error(f"is nested deeper than {MAX_DEPTH}")
        done: list[Path] = []
        open_paths: list[Path] = [()]
        while self.next not in (None, ")"):
            if self.next == "|":
                self._place += 1
                done, open_paths = done + open_paths, [()]
                continue
            following = self._quantified(depth)
            open_paths = [path + more for path in open_paths for more in following]
            if len(done) + len(open_paths) > MAX_PATHS:
                raise self.error(f"has more than {MAX_PATHS} alternatives with repeats")
        return done + open_paths

    def _quantified(self, depth: int) -> list[Path]:
        """The next part with the quantifier behind it."""
        begin, part = self._place, self._parts[self._place]
        self._place += 1
        if _quantifier(part) or part.startswith(_FOREIGN) or self._is_odd_flag(part, begin):
            raise self.error(f"holds {part!r}, which is not followed")
        if part.startswith("(?") and part.endswith(")"):
            return [()]
        is_group = part.startswith("(")
        inner = self._group(depth) if is_group else [(Item(part),)]
        after = self.next
        if after is None or not _quantifier(after):
            return inner
        self._place += 1
        if self.next is not None and _quantifier(self.next):
            raise self.error("quantifies a quantifier")
        return self._repeated(inner, after, None if is_group else part)

    def _group(self, depth: int) -> list[Path]:
        """Its alternatives; as one item if nothing in it repeats."""
        inner = self.alternatives(depth + 1)
        if self.next is None:
            raise self.error("opens a group that it does not close")
        self._place += 1
        if all(item.choices <= MANY for path in inner for item in path):
            return [(Item(None, sum(_ways(path) for path in inner)),)]
        return inner

    def _repeated(self, inner: list[Path], quantifier: str, text: str | None) -> list[Path]:
        low, high, is_possessive = self._range(quantifier)
        lengths = 1 if is_possessive else high - low + 1
        if quantifier[0] == "{" and quantifier.endswith("+"):  # here it repeats once more
            return [(Item(text, math.inf, can_fail=low > 0, has_ways=high > low),)]
        if high <= 1:
            if len(inner) == 1 and len(inner[0]) == 1 and inner[0][0].choices <= MANY:
                choices = inner[0][0].choices if lengths == 1 else inner[0][0].choices + 1
                return [(Item(text, choices, can_fail=low > 0),)]
            return [*inner, ()]
        has_ways = len(inner) > 1 or _ways(inner[0]) > 1
        if has_ways:
            self.repeated += inner
            lengths = 1 if is_possessive else math.inf
        return [(Item(text, lengths, can_fail=low > 0, has_ways=has_ways),)]

    def _range(self, quantifier: str) -> tuple[float, float, bool]:
        """Fewest and most repetitions, and whether none is ever given back."""
        if quantifier[0] != "{":
            low = 1.0 if quantifier[0] == "+" else 0.0
            return low, 1.0 if quantifier[0] == "?" else math.inf, quantifier.endswith("+", 1)
        inside, _, mark = quantifier[1:].partition("}")
        first, comma, second = inside.partition(",")
        if not (first or second):
            raise self.error(f"holds {quantifier!r}, which engines read in several ways")
        low = float(first or 0)
        high = float(second or math.inf) if comma else low
        return (0.0 if mark == "?" else low), max(low, high), False

    def _is_odd_flag(self, part: str, begin: int) -> bool:
        """Free spacing, which changes what is read, or flags for the rest of a group."""
        is_flags = part.startswith("(?") and part[-1] in ":)" and "<" not in part
        return is_flags and ("x" in part or (part.endswith(")") and begin > 0))


def _is_repeat(item: Item) -> bool:
    """The ways of a group without an endless repeat are choices, however many they are."""
    return item.choices == math.inf or (item.text is not None and item.choices > MANY)


def _ways(path: Sequence[Item]) -> float:
    return math.prod(item.choices for item in path)


def _quantifier(part: str) -> bool:
    return part[0] in "*+?" or (part[0] == "{" and len(part) > 1)
