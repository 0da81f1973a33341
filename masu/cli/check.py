"""`masu check`: says whether a package is sound."""

from dataclasses import asdict
from pathlib import Path

import click

from masu.cli import options
from masu.cli.failure import NO, YES
from masu.cli.output import print_columns, print_json
from masu.specs.finding import Finding


@click.command(short_help="Check a package, then load it strictly.")
@options.package
@click.option("--engine", metavar="E", help="Judge by this engine release too, such as uzu-0.6.")
@options.as_json
@click.pass_context
def command(ctx: click.Context, package: Path, engine: str | None, as_json: bool) -> None:
    """Check schema, tensors, hashes, tokenizer and template, then load PACKAGE strictly.

    Prints what was found, one finding a line. Exit status: 0 sound, 1 not sound, 2 not a package.
    """
    from masu.cli.jax_settings import configure_jax
    from masu.soundness import check

    configure_jax()
    findings = check(package, engine=engine)
    sound = not any(finding.is_problem for finding in findings)
    if as_json:
        document = {
            "package": str(package),
            "sound": sound,
            "findings": list(map(asdict, findings)),
        }
        print_json(document)
    else:
        _print(package, findings, sound)
    ctx.exit(YES if sound else NO)


def _print(package: Path, findings: list[Finding], sound: bool) -> None:
    problems = sum(finding.is_problem for finding in findings)
    if findings:
        print_columns((finding.kind, finding.where, finding.message) for finding in findings)
    click.echo(f"{package}: sound" if sound else f"{package}: not sound ({problems} found)")
