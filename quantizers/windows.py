"""A text as the stretches of token ids that models are measured on."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from masu.specs.errors import RequestError
from masu.specs.report import MeasuredText
from masu.specs.text.tokenizer import PackageTokenizer

WINDOW = 512
"""Tokens that a model reads at once, or its context if that is shorter: long enough for sliding
windows to matter, short enough that every window is one of several."""


class NamedText(NamedTuple):
    """Attributes:
    name: as the report gives it.
    """

    name: str
    text: str


class Window(NamedTuple):
    """Attributes:
    ids: what the model reads, the tokens that begin a text included.
    begin: how many these are.
    start: index, among the tokens of the text, of the first one that belongs to it.
    """

    ids: np.ndarray
    begin: int
    start: int

    @property
    def first_row(self) -> int:
        """The first row of the logits that predicts a token of the text from something."""
        return max(self.begin - 1, 0)


@dataclass(frozen=True)
class WindowedText:
    """Attributes:
    ids: of the text itself, `[tokens]`, those that a vocabulary of `vocab_size` reaches.
    begin: the tokens that begin any text of this model.
    size: the most tokens in a window.
    left_out: tokens that the vocabulary does not reach.
    """

    source: NamedText
    ids: Sequence[int]
    begin: Sequence[int]
    size: int
    left_out: int

    @classmethod
    def of(
        cls, source: NamedText, tokenizer: PackageTokenizer, vocab_size: int, longest: int | None
    ) -> "WindowedText":
        """`longest` is the context of the model, None without a limit.

        Raises:
            RequestError: the text has fewer than two tokens for this model.
        """
        ids = tokenizer.encode(source.text)
        known = [token for token in ids if token < vocab_size]
        size = min(WINDOW, longest or WINDOW)
        begin = _begin(tokenizer, source.text, ids)
        if len(known) < 2 or size < len(begin) + 2:
            raise RequestError(f"text {source.name!r} is too short: 2 tokens are the least")
        return cls(source, known, begin, size, len(ids) - len(known))

    @cached_property
    def windows(self) -> Sequence[Window]:
        """One behind the other; a last one in which nothing could be predicted is left off."""
        step = self.size - len(self.begin)
        starts = range(0, len(self.ids), step)
        found = (
            Window(np.array([*self.begin, *self.ids[at : at + step]]), len(self.begin), at)
            for at in starts
        )
        return [window for window in found if len(window.ids) > window.first_row + 1]

    @property
    def record(self) -> MeasuredText:
        return MeasuredText(
            name=self.source.name,
            sha256=hashlib.sha256(self.source.text.encode()).hexdigest(),
            tokens=len(self.ids),
            window=self.size,
            windows=len(self.windows),
            positions=sum(len(each.ids) - each.first_row - 1 for each in self.windows),
            left_out=self.left_out,
        )


def _begin(tokenizer: PackageTokenizer, text: str, ids: list[int]) -> list[int]:
    """What tokenizer.json puts before a text."""
    prompt = tokenizer.encode_prompt(text)
    places = range(len(prompt) - len(ids) + 1)
    return prompt[: next((at for at in places if prompt[at : at + len(ids)] == ids), 0)]
