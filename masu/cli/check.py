"""`masu check`: says whether a package is sound."""

from pathlib import Path

import click

from masu.cli import options
from masu.cli.failure import NO, YES
from masu.cli.output import print_columns, print_json
from masu.specs.finding import Finding


@click.command(short_help="Check a package, then load it strictly.")
@options.package
@click.option("--engine", metavar="E", help="Judge by this engine release too, such as uzu-0.6.")
@click.option(
    "--key", type=click.Path(path_type=Path), metavar="PUBLIC.pem",
    help="Demand a signature by the owner of this ed25519 key.",
)  # fmt: skip
@options.junit
@options.as_json
@click.pass_context
def command(
    ctx: click.Context, package: Path, engine: str | None, key: Path | None, junit: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Check schema, tensors, hashes, tokenizer and template, then load PACKAGE strictly.

    Prints what was found, one finding a line. With --engine also every reason why that release
    refuses the package, and as `differs` whatever it loads and computes otherwise than the
    package says, which is no reason to fail.

    Exit status: 0 sound, 1 not sound, 2 not a package.
    """
    from masu.cli.jax_settings import configure_jax
    from masu.reports.findings import cases_of
    from masu.reports.junit import write_junit
    from masu.soundness import check

    configure_jax()
    findings = check(package, engine=engine, key=key)
    sound = not any(finding.is_problem for finding in findings)
    if junit is not None:
        write_junit(
            junit, f"masu check {package}", cases_of(findings, engine, signed=key is not None)
        )
    if as_json:
        document = {
            "package": str(package),
            "sound": sound,
            "findings": [finding.to_json() for finding in findings],
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
