"""`masu diff`: says in what two packages differ."""

from pathlib import Path

import click

from masu.cli import options
from masu.cli.failure import NO, YES
from masu.cli.output import print_json
from masu.specs.printable import printable, printable_lines


@click.command(short_help="Compare two packages.")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@options.as_json
@click.pass_context
def command(ctx: click.Context, a: Path, b: Path, as_json: bool) -> None:
    """Print everything in which package B differs from package A, and nothing if they are alike.

    Config fields, generation defaults, template, tokenizer, manifest, and of tensors names, formats
    and the distance of the decoded values. Packages for two engine releases can be compared.

    Exit status: 0 the same, 1 different, 2 cannot be compared.
    """
    from masu.comparison.packages import diff

    found = diff(a, b)
    if as_json:
        entries = [entry.to_json() for entry in found.entries]
        print_json({"a": str(a), "b": str(b), "same": found.is_empty, "entries": entries})
    else:
        for entry in found.entries:
            said = f"{entry.section}  {printable(entry.place)}  {entry}"
            click.echo(printable_lines(said).replace("\n", "\n    "))
    ctx.exit(YES if found.is_empty else NO)
