"""Splits a reply into reasoning, answer and tool calls: whole, by a pattern, or as it streams."""

from collections.abc import Callable
from typing import NamedTuple

import regex

from masu.specs.errors import TextError
from masu.specs.text.markers import first_marker, may_begin
from masu.specs.text.pattern_bounds import check_pattern
from masu.specs.text.reasoning import OUTPUT_PARSERS, reply_format
from masu.specs.text.segment import Kind, Segment
from masu.specs.text.tool_calls import CallSplitter, ToolCall, split_calls
from masu.specs.text.tool_styles import ToolStyle

MATCH_SECONDS = 2
"""The library of Python itself has no limit, and a pattern comes with a model: it is not trusted.
Patterns in use take a millisecond for a long reply."""


class ParsedReply(NamedTuple):
    """A whole reply.

    Attributes:
        reasoning: None where the model did not think.
        text: the answer, without the tool calls in it.
        malformed_calls: what is wrong with each stretch of the text that was marked as a call.
    """

    reasoning: str | None
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    malformed_calls: tuple[str, ...] = ()


def compile_pattern(pattern: str) -> "regex.Pattern[str]":
    """An `output_parser_regex`, checked.

    Raises:
        TextError: no regular expression, one that can take forever, no group `response`, or a
            group of another name than that and `chain_of_thought`.
    """
    check_pattern(pattern, "output_parser_regex")
    try:
        compiled = regex.compile(pattern)
    # Beside the syntax, a pattern may be too large to compile.
    except (regex.error, OverflowError, RecursionError, MemoryError) as error:
        raise TextError(f"output_parser_regex is not a pattern: {error}") from None
    groups = set(compiled.groupindex)
    if "response" not in groups or not groups <= {"response", "chain_of_thought"}:
        raise TextError(
            "output_parser_regex: expected the group `response`, and `chain_of_thought` or none "
            f"besides, found {sorted(groups)}"
        )
    return compiled


def parse_reply(pattern: str | None, text: str) -> ParsedReply:
    """The reply as the pattern, matched at its start, divides it; all of it text if it does not.

    Args:
        pattern: `output_parser_regex` of the package.
        text: the decoded reply, markers included.
    """
    return _match(pattern, text) or ParsedReply(None, text)


def _match(pattern: str | None, text: str) -> ParsedReply | None:
    if pattern is None:
        return None
    try:
        match = compile_pattern(pattern).match(text, timeout=MATCH_SECONDS)
    except TimeoutError:
        raise TextError(
            f"output_parser_regex took more than {MATCH_SECONDS} s on a reply of {len(text):,} "
            f"characters: {pattern:.80}"
        ) from None
    if match is None:
        return None
    groups = match.groupdict()
    return ParsedReply(groups.get("chain_of_thought"), groups["response"] or "")


class ReplyParser:
    """Tells what each piece of a reply is, as soon as that is certain.

    What has been told is not taken back. `finish` gives the whole reply by the package's own
    pattern, which is the same for every well-formed reply.

    Args:
        pattern: `output_parser_regex` of the package.
        end_of_thinking_tag: that of the package.
        prompt: the text before the reply. Where it ends with the opening of a thought, the reply
            begins inside the thought, and all of it is reasoning if it never closes.
        calls: how tool calls in the answer are written; None leaves them in the text.
    """

    def __init__(
        self,
        pattern: str | None,
        end_of_thinking_tag: str | None,
        prompt: str = "",
        calls: ToolStyle | None = None,
    ) -> None:
        self._pattern = pattern
        self._calls = calls
        self._splitter = None if calls is None else CallSplitter(calls)
        self._format = reply_format(pattern, end_of_thinking_tag)
        opening = self._format.thought_opening
        self.opened = opening != "" and prompt.rstrip().endswith(opening.strip())
        self._reply = ""
        self._pending = ""
        self._told: list[Segment] = []
        self._parts: list[Segment] = []  # the same before tool calls are taken out
        self._state: Callable[[], bool] = self._reasoning if self.opened else self._start

    def feed(self, text: str) -> list[Segment]:
        """The next piece of the reply; what is certain now, in order."""
        self._reply += text
        self._pending += text
        before = len(self._told)
        while self._state():
            pass
        return self._told[before:]

    def finish(self, stop_text: str = "") -> tuple[list[Segment], ParsedReply]:
        """The rest of the segments, and the reply as a whole.

        Args:
            stop_text: the token that ended the reply; some patterns insist on seeing it.
        """
        before = len(self._told)
        self._tell("reasoning" if self._state == self._reasoning else "text", self._pending)
        self._pending = ""
        if self._splitter is not None:
            self._told += self._splitter.finish()
        whole = self._parsed(stop_text)
        if self._calls is not None:
            whole = ParsedReply(whole.reasoning, *split_calls(self._calls, whole.text))
        return self._told[before:], whole

    def _parsed(self, stop_text: str) -> ParsedReply:
        if self._pattern is None:
            return ParsedReply(self._joined("reasoning") or None, self._joined("text"))
        # To a known pattern, an opened thought must look opened: unclosed, it would be an answer.
        is_known = self.opened and self._pattern in OUTPUT_PARSERS.values()
        whole = (self._format.thought_opening if is_known else "") + self._reply
        parsed = _match(self._pattern, whole) or _match(self._pattern, whole + stop_text)
        return parsed or ParsedReply(None, self._reply)

    def _joined(self, kind: Kind) -> str:
        return "".join(segment.text for segment in self._parts if segment.kind == kind)

    # States: each handles the pending text and says whether another one is to go on with it.

    def _start(self) -> bool:
        """Nothing is known yet: a thought, a mark before the answer, or the answer itself."""
        openings = (self._format.thought_opening, *self._format.text_openings)
        if openings[0] and self._pending.startswith(openings[0]):
            return self._enter(self._reasoning, drop=len(openings[0]))
        return self._after_marks(openings)

    def _reasoning(self) -> bool:
        return self._until("reasoning", (self._format.thought_closing,), self._gap)

    def _gap(self) -> bool:
        """Between the thought and the answer."""
        self._pending = self._pending.lstrip()
        return self._after_marks(self._format.text_openings)

    def _text(self) -> bool:
        return self._until("text", self._format.text_closings, self._end)

    def _end(self) -> bool:
        """After the answer: nothing of it is shown."""
        self._pending = ""
        return False

    def _after_marks(self, openings: tuple[str, ...]) -> bool:
        """On to the answer, once it is certain which mark, if any, stands before it."""
        if not self._pending or may_begin(self._pending, openings) == len(self._pending):
            return False
        mark = next((o for o in openings if o and self._pending.startswith(o)), "")
        return self._enter(self._text, drop=len(mark))

    def _until(self, kind: Kind, marks: tuple[str, ...], then: Callable[[], bool]) -> bool:
        """Tell the pending text up to a mark, or as far as no mark can begin in it."""
        found = first_marker(self._pending, marks)
        if found is None:
            end = len(self._pending) - may_begin(self._pending, marks)
            self._tell(kind, self._pending[:end])
            self._pending = self._pending[end:]
            return False
        at, mark = found
        self._tell(kind, self._pending[:at])
        return self._enter(then, drop=at + len(mark))

    def _enter(self, state: Callable[[], bool], drop: int = 0) -> bool:
        self._pending = self._pending[drop:]
        self._state = state
        return True

    def _tell(self, kind: Kind, text: str) -> None:
        if not text:
            return
        self._parts.append(Segment(kind, text))
        if kind == "text" and self._splitter is not None:
            self._told += self._splitter.feed(text)
        else:
            self._told.append(self._parts[-1])
