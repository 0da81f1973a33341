"""`masu chat`: a conversation, one line at a time."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from masu.cli import options
from masu.cli.replies import stream_reply


@click.command(short_help="Talk with the model of a package.")
@options.package
@options.system
@options.reasoning_effort
@options.generation
@options.backend
@options.dtype
@options.threads
@options.activations
def command(
    package: Path, system: str | None, reasoning_effort: Any, max_tokens: int,
    stop: tuple[str, ...], backend: str | None, dtype: str | None, threads: int | None,
    activations: str | None, **sampling: Any,
) -> None:  # fmt: skip
    """Talk with the model of PACKAGE: every line of stdin is a message, until its end (Ctrl-D)."""
    from masu.cli.jax_settings import configure_jax
    from masu.runtime.language_model import load

    configure_jax()
    model = load(package, dtype=dtype, backend=backend, threads=threads, activations=activations)
    chat = model.chat(
        system=system,
        sampling=model.sampling.override(**sampling),
        reasoning_effort=reasoning_effort,
    )
    for message in _messages():
        stream_reply(chat.stream(message, max_tokens=max_tokens, stop=stop))


def _messages() -> Iterator[str]:
    """Lines that say something; a person at a terminal sees when it is their turn."""
    while True:
        if sys.stdin.isatty():
            click.echo("> ", nl=False, err=True)
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line.rstrip("\n")
