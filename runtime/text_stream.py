"""Text of a reply while its tokens arrive: only what no later token can change."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from masu.specs.errors import RequestError
from masu.specs.text.markers import first_marker, may_begin
from masu.specs.text.tokenizer import PackageTokenizer

_BYTE_TOKEN = re.compile(r"<0x[0-9A-F]{2}>")
_INCOMPLETE = "\ufffd"


class TextStream:
    """Decodes token by token. All pieces together are the decoded whole.

    Only the latest tokens are decoded again, in the company of those just before them: what a
    decoder does at the start of a text (drop a space) cancels out between the two decodings.

    Args:
        skip_special: leave special tokens out of the text.
    """

    def __init__(self, tokenizer: PackageTokenizer, *, skip_special: bool = False) -> None:
        self._tokenizer = tokenizer
        self._skip_special = skip_special
        self._before: list[int] = []
        self._pending: list[int] = []

    def add(self, token_id: int) -> str:
        """The text that is certain now and was not before; often none.

        Kept back are: characters of which bytes are missing; anything that ends in U+FFFD, which
        may be such a character; and runs of byte tokens (`<0xE2>`), because one bad byte turns
        its whole run into U+FFFD.
        """
        spelling = self._tokenizer.token(token_id)
        if spelling is None or (self._skip_special and token_id in self._tokenizer.special_ids):
            return ""  # decoders do not see it: it does not even end a run of bytes
        self._pending.append(token_id)
        if _BYTE_TOKEN.fullmatch(spelling):
            return ""
        context, text = self._texts()
        if text.endswith(_INCOMPLETE) or text == context or not text.startswith(context):
            return ""
        self._before, self._pending = self._pending, []
        return text[len(context) :]

    def finish(self) -> str:
        """What was kept back."""
        context, text = self._texts()
        self._before, self._pending = self._pending, []
        return text[len(context) :]

    def _texts(self) -> tuple[str, str]:
        return self._decode(self._before), self._decode(self._before + self._pending)

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special=self._skip_special)


class StoppedText(NamedTuple):
    """`text` may be shown; `stop` is the stop string that ended it, if one did."""

    text: str
    stop: str | None


class StopStrings:
    """Ends a text before the first stop string, wherever tokens cut it.

    Args:
        stops: texts, none of them empty.

    Raises:
        RequestError: an empty stop string, which would end every text.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if "" in stops:
            raise RequestError("a stop string is empty")
        self._stops = tuple(stops)
        self._kept = ""

    def feed(self, text: str) -> StoppedText:
        """The next text; what may be the beginning of a stop string is kept back."""
        text = self._kept + text
        found = first_marker(text, self._stops)
        if found is not None:
            at, stop = found
            self._kept = ""
            return StoppedText(text[:at], stop)
        end = len(text) - may_begin(text, self._stops)
        self._kept = text[end:]
        return StoppedText(text[:end], None)

    def finish(self) -> str:
        """What was kept back and turned out to be text."""
        kept, self._kept = self._kept, ""
        return kept


class VisibleText:
    """What a reader sees of a reply: its text as far as it is certain, up to a stop string.

    Args:
        tokenizer: None shows nothing.
    """

    def __init__(
        self, tokenizer: PackageTokenizer | None, stops: Sequence[str], *, skip_special: bool
    ) -> None:
        self._stops = StopStrings(stops)
        self._stream: TextStream | None = None
        if tokenizer is not None:
            self._stream = TextStream(tokenizer, skip_special=skip_special)

    def add(self, token_id: int) -> StoppedText:
        return self._stops.feed("" if self._stream is None else self._stream.add(token_id))

    def finish(self) -> StoppedText:
        """The rest, where the reply ends for another reason."""
        shown = self._stops.feed("" if self._stream is None else self._stream.finish())
        return shown if shown.stop else StoppedText(shown.text + self._stops.finish(), None)
