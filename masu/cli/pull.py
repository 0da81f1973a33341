"""`masu pull`: a package from the Hub."""

from pathlib import Path

import click

from masu.cli import options
from masu.cli.output import note, print_json, size
from masu.cli.progress import shown_progress


@click.command(short_help="Fetch a package from the Hub, every byte checked.")
@click.argument("repo")
@click.option(
    "-o", "--output", "out", type=options.FOLDER, metavar="DIR",
    help="The package's folder; models/<org>/<name> if not given.",
)  # fmt: skip
@click.option(
    "--key", type=click.Path(path_type=Path), metavar="PUBLIC.pem",
    help="Demand a signature by the owner of this ed25519 key.",
)  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace a package that is already there.")
@options.as_json
def command(repo: str, out: Path | None, key: Path | None, overwrite: bool, as_json: bool) -> None:
    """Fetch the package REPO (org/name, or org/name@revision) from the Hugging Face Hub.

    The revision is resolved to a commit once. Files come several at a time, and an interrupted run
    is gone on with. Every byte is compared with the Hub's hashes and with manifest.json (of a
    repository without one, as lalamo writes them, with the Hub's hashes only); the folder appears
    only then. Files that arrived damaged are named, and fetched again by the next
    run.

    Prints the folder. Exit status: 0 fetched, 2 it cannot be.
    """
    from masu.pulling import pull

    with shown_progress() as on_event:
        pulled = pull(repo, out, key=key, overwrite=overwrite, on_event=on_event)
    if as_json:
        print_json({**vars(pulled), "path": str(pulled.path)})
        return
    note(f"{pulled.repo}@{pulled.commit}: {len(pulled.files)} files, {size(pulled.bytes)}")
    if pulled.left_out:
        note(f"left on the Hub: {', '.join(pulled.left_out)}")
    click.echo(pulled.path)
