"""`masu push`: a verified package to the Hub."""

import sys
from pathlib import Path

import click

from masu.cli import options
from masu.cli.output import note, print_json
from masu.cli.progress import shown_progress


@click.command(short_help="Publish a verified package on the Hub.")
@options.package
@click.argument("repo")
@click.option("--dry-run", is_flag=True, help="Print the model card; upload nothing.")
@click.option(
    "--license", "licence", metavar="ID",
    help="Licence of the model; without it, what the source's card on the Hub says.",
)  # fmt: skip
@click.option("--private", is_flag=True, help="If the repository is new, for its owner only.")
@options.as_json
def command(
    package: Path, repo: str, dry_run: bool, licence: str | None, private: bool, as_json: bool
) -> None:
    """Publish PACKAGE as REPO (org/name) on the Hugging Face Hub, in one commit.

    Only a verified package is published: its bytes are those of manifest.json, and report.json
    has a verdict of this very manifest that passed. README.md becomes a model card made from both
    and from the licence of the source. Log in with `hf auth login` first.

    Prints the address of the commit. Exit status: 0 published, 1 not verified, 2 it cannot be.
    """
    from masu.pushing import prepare, push

    if dry_run:
        ready = prepare(package, repo, licence=licence)
        if as_json:
            print_json({"repo": repo, "files": ready.files, "card": ready.card})
        else:
            note(f"would publish {', '.join(ready.files)} and this README.md:")
            click.echo(ready.card, nl=False)
        return
    _hide_bars_from_files()
    with shown_progress() as on_event:
        pushed = push(package, repo, licence=licence, private=private, on_event=on_event)
    if as_json:
        print_json(vars(pushed))
        return
    if pushed.removed:
        note(f"removed there: {', '.join(pushed.removed)}")
    click.echo(pushed.url)


def _hide_bars_from_files() -> None:
    """huggingface_hub draws its bars for uploads into log files too, unless told for good."""
    from huggingface_hub.utils import disable_progress_bars

    if not sys.stderr.isatty():
        disable_progress_bars()
