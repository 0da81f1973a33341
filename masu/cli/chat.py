"""`masu chat`: a conversation, one line at a time."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from masu.cli import options
from masu.cli.replies import stream_reply


@click.command(short_help="Talk with the model of a package.")
@options.package
@click.option("--system", metavar="TEXT", help="System message; without it, the package's own.")
@options.max_tokens
@options.temperature
@options.seed
@options.backend
@options.dtype
def command(
    package: Path, system: str | None, max_tokens: int, temperature: float | None,
    seed: int | None, backend: str | None, dtype: str | None,
) -> None:  # fmt: skip
    """Talk with the model of PACKAGE: every line of stdin is a message, until its end (Ctrl-D)."""
    from masu.cli.jax_settings import configure_jax
    from masu.runtime.language_model import load

    configure_jax()
    model = load(package, dtype=dtype, backend=backend)
    sampling = model.sampling.override(temperature=temperature, seed=seed)
    chat = model.chat(system=system, sampling=sampling)
    for message in _messages():
        stream_reply(chat.stream(message, max_tokens=max_tokens))


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
