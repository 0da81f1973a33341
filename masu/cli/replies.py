"""A reply on its way out: answer to stdout as it is written, reasoning to stderr."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from masu.cli.output import note

if TYPE_CHECKING:
    from masu.runtime.chat import Reply
    from masu.specs.text.segment import Segment


def stream_reply(parts: "Iterable[Segment | Reply]") -> "Reply":
    """Prints segments one by one; the whole reply, which comes last, is returned."""
    from masu.runtime.chat import Reply

    reply = None
    for part in parts:
        if isinstance(part, Reply):
            reply = part
        else:
            click.echo(part.text, nl=False, err=part.kind == "reasoning")
    if reply is None:
        raise RuntimeError("the stream ended without a reply")
    if reply.reasoning is not None:
        click.echo(err=True)
    click.echo()
    tell_if_cut(reply.finish_reason)
    return reply


def tell_if_cut(finish_reason: str | None) -> None:
    if finish_reason == "length":
        note("note: the reply was cut off; --max-tokens allows more")
