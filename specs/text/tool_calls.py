"""Takes the tool calls out of a reply, as it streams."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from masu.specs.errors import TextError
from masu.specs.text.markers import first_marker, may_begin
from masu.specs.text.segment import Segment
from masu.specs.text.tool_styles import ToolStyle


@dataclass(frozen=True)
class ToolCall:
    """What the model wants called.

    Attributes:
        arguments: JSON values by name; nobody has compared them with the tool's schema.
        text: as the model wrote it, marks included; calls that share marks share it.
    """

    name: str
    arguments: Mapping[str, Any]
    text: str


class SplitReply(NamedTuple):
    """An answer without the calls in it.

    Attributes:
        malformed: what is wrong with each stretch that was marked as a call and is none; it
            stayed in the text.
    """

    text: str
    calls: tuple[ToolCall, ...]
    malformed: tuple[str, ...]


def split_calls(style: ToolStyle, text: str) -> SplitReply:
    """The calls in a whole answer, and what else there is."""
    splitter = CallSplitter(style)
    segments = [*splitter.feed(text), *splitter.finish()]
    rest = "".join(segment.text for segment in segments if segment.kind == "text")
    return SplitReply(rest, tuple(splitter.calls), tuple(splitter.malformed))


class CallSplitter:
    """Tells text from tool calls; a call is told when it is complete.

    White space around a call goes: templates put their own there.

    Attributes:
        calls: those told so far.
        malformed: see `SplitReply`.
    """

    def __init__(self, style: ToolStyle) -> None:
        self.calls: list[ToolCall] = []
        self.malformed: list[str] = []
        self._style = style
        self._pending = ""
        self._told: list[Segment] = []
        self._body = 0  # where the body of a call begins in the pending text
        self._state: Callable[[], bool] = self._start

    def feed(self, text: str) -> list[Segment]:
        """The next piece of the answer; what is certain now, in order."""
        self._pending += text
        before = len(self._told)
        while self._state():
            pass
        return self._told[before:]

    def finish(self) -> list[Segment]:
        """The rest. A call without its closing mark counts if it is whole without it."""
        before = len(self._told)
        if self._state == self._call:
            self._end_call(len(self._pending), len(self._pending))
        if self._state != self._after_call:
            self._tell_text(len(self._pending))
        return self._told[before:]

    # States: each handles the pending text and says whether another one is to go on with it.

    def _start(self) -> bool:
        """Before the first character that is no white space."""
        reply = self._pending.lstrip()
        if not reply:
            return False
        if self._style.bare and reply.startswith(self._style.bare):
            return self._enter(self._call, body=len(self._pending) - len(reply))
        return self._enter(self._text)

    def _text(self) -> bool:
        found = first_marker(self._pending, (self._style.opening,))
        if found is not None:
            self._tell_text(len(self._pending[: found[0]].rstrip()))
            body = self._pending.index(self._style.opening) + len(self._style.opening)
            return self._enter(self._call, body=body)
        certain = len(self._pending) - may_begin(self._pending, (self._style.opening,))
        self._tell_text(len(self._pending[:certain].rstrip()))
        return False

    def _call(self) -> bool:
        mark = self._style.closing or self._style.opening
        end = self._pending.find(mark, self._body)
        if end < 0:
            return False
        self._end_call(end, end + len(self._style.closing))
        return True

    def _after_call(self) -> bool:
        self._pending = self._pending.lstrip()
        return bool(self._pending) and self._enter(self._text)

    def _end_call(self, end: int, next_begin: int) -> None:
        """The body ends at `end` of the pending text; what comes after it, at `next_begin`."""
        block = self._pending[:next_begin]
        try:
            read = self._style.read(self._pending[self._body : end])
        except TextError as error:
            self.malformed.append(str(error))
            self._tell_text(next_begin)
            self._enter(self._text)
            return
        self.calls += [ToolCall(*call, block.strip()) for call in read]
        self._told.append(Segment("tool_call", block.strip()))
        self._pending = self._pending[next_begin:]
        self._enter(self._after_call)

    def _enter(self, state: Callable[[], bool], body: int = 0) -> bool:
        self._state, self._body = state, body
        return True

    def _tell_text(self, end: int) -> None:
        """Tell the pending text up to `end`."""
        if end:
            self._told.append(Segment("text", self._pending[:end]))
            self._pending = self._pending[end:]
