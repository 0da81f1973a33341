"""Reads a tokenizer.json that is not trusted: the work of its patterns and replacements is bounded.

The library that runs them has no limits of its own: a pattern may take the square of a text, or
2**30 steps, and each of forty replacements may double it.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tokenizers import Regex, Tokenizer
from tokenizers.pre_tokenizers import Split

from masu.specs.errors import TextError
from masu.specs.text.pattern_work import repeats_of

MAX_PATTERNS = 64
"""In one file; those in use have at most five."""
MAX_GROWTH = 100
"""Of a text by all that replaces parts of it; 33 for the longest in use, an Arabic ligature."""
MAX_STEPS = 400_000_000
"""That may be taken back in a text: a run of 20,000 spaces has as many. About three seconds."""

_KEY = rb"".join(rb"(?:%c|\\u00%02x)" % (letter, letter) for letter in b"Regex")
_PATTERN = re.compile(rb'"' + _KEY + rb'"\s*+:\s*+("(?:[^"\\]|\\.)*+")')
_PANIC = "PanicException"
"""The library's name for a defect of its own, which is no `Exception`, and cannot be imported."""


def read_tokenizer(data: bytes, where: str) -> "BoundedTokenizer":
    """The tokenizer of a file.

    Raises:
        TextError: not a file of the tokenizers library, or one whose patterns or replacements can
            take forever.
    """
    repeats = _repeats(data, where)
    try:
        tokenizer = Tokenizer.from_buffer(data)
    except BaseException as error:  # the library raises bare Exception for every malformed file
        raise _told(error, f"{where} cannot be read") from None
    # Both are settings of training runs; applied to a prompt they would silently change it.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    _refuse_steps([*_steps(tokenizer.normalizer), *_steps(tokenizer.decoder)], where)
    return BoundedTokenizer(tokenizer, repeats, where)


@dataclass(frozen=True)
class BoundedTokenizer:
    """Attributes:
    repeats: a character of each repeat that its patterns can give back; None for anything.
    """

    tokenizer: Tokenizer
    repeats: tuple[str | None, ...]
    where: str

    def encode(self, text: str, *, add_special_tokens: bool) -> Any:
        """The library's encoding.

        Raises:
            TextError: the text has runs on which a pattern can take too long, or the library fails.
        """
        self._refuse_runs(text)
        try:
            return self.tokenizer.encode(text, add_special_tokens=add_special_tokens)
        except BaseException as error:
            raise _told(error, f"{self.where} fails on this text") from None

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        """The library's text; TextError if it fails."""
        try:
            return self.tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)
        except BaseException as error:
            raise _told(error, f"{self.where} fails on these ids") from None

    def _refuse_runs(self, text: str) -> None:
        """In what the patterns see; only long texts can have such runs."""
        if len(self.repeats) * (MAX_GROWTH * len(text)) ** 2 <= MAX_STEPS:
            return
        normalizer: Any = self.tokenizer.normalizer
        seen = text if normalizer is None else normalizer.normalize_str(text)
        if len(self.repeats) * len(seen) ** 2 <= MAX_STEPS:
            return
        steps = sum(run * run for repeat in self._runs for run in _lengths(repeat, seen))
        if steps > MAX_STEPS:
            raise TextError(
                f"a text of {len(text):,} characters has runs on which the patterns of {self.where}"
                f" can take {steps:,} steps, at most {MAX_STEPS:,} are taken",
                hint="long runs of one kind of character, such as spaces, should be broken up",
            )

    @cached_property
    def _runs(self) -> tuple[Split | None, ...]:
        """What takes the runs of each repeat out of a text."""
        return tuple(
            None if repeat is None else Split(Regex(f"(?im:{repeat})++"), "removed")
            for repeat in self.repeats
        )


def _repeats(data: bytes, where: str) -> tuple[str | None, ...]:
    """Of all patterns; the file, which may be large, is not parsed for them."""
    found = list(_PATTERN.finditer(data))
    if len(found) > MAX_PATTERNS:
        raise TextError(f"{where} has {len(found):,} patterns, at most {MAX_PATTERNS} are run")
    repeats: list[str | None] = []
    for each in found:
        try:
            pattern = json.loads(each[1])
        except ValueError as error:
            raise TextError(f"{where}: a pattern is no JSON text: {error}") from None
        repeats += repeats_of(pattern, f"a pattern of {where}")
    return tuple(repeats)


def _lengths(runs: Split | None, text: str) -> Iterator[int]:
    """Lengths of the runs: of the stretches between what is left without them."""
    if runs is None:
        yield len(text)
        return
    place = 0
    for _, (begin, end) in runs.pre_tokenize_str(text):
        yield begin - place
        place = end
    yield len(text) - place


def _steps(part: Any) -> Iterator[dict[str, Any]]:
    """Every step of a normalizer or decoder, as the file describes it."""
    if part is None:
        return
    open_steps = [json.loads(part.__getstate__())]
    while open_steps:
        step = open_steps.pop()
        inner = [*step.get("normalizers", ()), *step.get("decoders", ())]
        open_steps += inner
        if not inner:
            yield step


def _refuse_steps(steps: Iterable[dict[str, Any]], where: str) -> None:
    """Whose text is not at hand to be measured before they run."""
    growth = 1.0
    for step in steps:
        growth *= max(1.0, _growth(step))
        match step.get("pattern"):
            case {"Regex": str(pattern)} if repeats_of(pattern, where):
                raise TextError(
                    f"{where} replaces by a pattern that can take the square of a text:"
                    f" {pattern:.80}"
                )
    if growth > MAX_GROWTH:
        raise TextError(f"{where} can make a text {growth:,.0f} times as long as it is")


def _growth(step: dict[str, Any]) -> float:
    """How many times as long a text can become by one step."""
    match step:
        case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)} if old:
            return len(new) / len(old)
        case {"type": "Replace", "content": str(new)}:  # by what may match nothing, anywhere
            return 1 + len(new)
        case {"type": "Prepend", "prepend": str(new)}:
            return max(1, len(new))
        case {"type": "Precompiled", "precompiled_charsmap": str(charsmap)}:
            return max(map(len, _replacements(base64.b64decode(charsmap))), default=1)
    return 1


def _replacements(charsmap: bytes) -> list[bytes]:
    """What SentencePiece's map puts in place of characters: texts, each with a zero behind it."""
    trie = int.from_bytes(charsmap[:4], "little")
    return charsmap[4 + trie :].split(b"\0")


def _told(error: BaseException, what: str) -> BaseException:
    """As an error of the file; an interrupt stays what it is."""
    if isinstance(error, Exception) or type(error).__name__ == _PANIC:
        return TextError(f"{what}: {error}")
    return error
