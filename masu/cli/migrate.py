"""`masu migrate`: writes a package in the dialect of another engine release."""

from dataclasses import asdict
from pathlib import Path

import click

from masu.cli import options
from masu.cli.failure import YES
from masu.cli.output import note, print_json
from masu.specs.engines import DEFAULT_ENGINE


@click.command(short_help="Write a package for another engine release.")
@options.package
@click.option(
    "-o", "--out", required=True, type=options.FOLDER, metavar="DIR",
    help="Folder of the new package.",
)  # fmt: skip
@click.option(
    "--engine", default=DEFAULT_ENGINE, show_default=True, metavar="E",
    help="The release that is to load it.",
)  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace the package that is there.")
@options.as_json
@click.pass_context
def command(
    ctx: click.Context, package: Path, out: Path, engine: str, overwrite: bool, as_json: bool
) -> None:
    """Write PACKAGE in the dialect of another engine release; no value changes.

    Names, keys and the order of group parameters follow the release, and a config.json from
    between two releases is repaired. What the release has no words for stays in manifest.json and
    comes back on the way back, or the migration is refused. A signature is of the old files, so it
    is not carried over.

    Exit status: 0 written, 2 it cannot be.
    """
    from masu.migration import migrate

    done = migrate(package, out, engine=engine, overwrite=overwrite)
    for place in done.repaired:
        note(f"repaired: {place}")
    for place in done.carried:
        note(f"kept in manifest.json only: {place}")
    for place in done.restored:
        note(f"restored from manifest.json: {place}")
    for name in done.left_out:
        note(f"not carried over: {name}, which is of the old files; masu sign signs the new ones")
    if done.refusals:
        note(f"warning: {engine} will not load this package")
        for refusal in done.refusals:
            note(f"  {refusal}")
    if as_json:
        print_json({**asdict(done), "path": str(done.path)})
    else:
        click.echo(done.path)
    ctx.exit(YES)
