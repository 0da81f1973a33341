"""A stretch of a reply, told as soon as it is certain what it is."""

from typing import Literal, NamedTuple

Kind = Literal["reasoning", "text", "tool_call"]
"""What a stretch of a reply is. A tool call is one segment, with the marks around it."""


class Segment(NamedTuple):
    """The next stretch of a streamed reply."""

    kind: Kind
    text: str
