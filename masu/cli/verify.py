"""`masu verify`: says whether a package computes what it should."""

from pathlib import Path

import click

from masu.cli import options
from masu.cli.completion import complete_source
from masu.cli.failure import NO, YES
from masu.cli.output import note, print_json
from masu.cli.progress import shown_progress
from masu.specs.printable import printable


@click.command(short_help="Compare a package's numbers with its source or fingerprints.")
@options.package
@click.option(
    "--against", metavar="SOURCE", shell_complete=complete_source,
    help="Compare with this source, as `masu convert` takes it.",
)  # fmt: skip
@click.option("--offline", is_flag=True, help="Use only what was downloaded before.")
@options.junit
@options.as_json
@click.pass_context
def command(
    ctx: click.Context,
    package: Path,
    against: str | None,
    offline: bool,
    junit: Path | None,
    as_json: bool,
) -> None:
    """Compare the numbers of PACKAGE block by block, and name the first that diverges.

    With --against, the conversion of SOURCE is planned again; every array is compared, every value
    of config.json and tokenizer.json, then each block with transformers where that is installed
    (verdict `verified`), else with masu's own float64 reference (`consistent`). Without, the
    package's fingerprints.json says what every block computed when it was converted (`unchanged`).

    Exit status: 0 the package agrees, 1 it does not, 2 it cannot be said.
    """
    from masu.cli.jax_settings import configure_jax
    from masu.reports.junit import write_junit
    from masu.reports.verdicts import cases_of
    from masu.verification.verify import verify

    configure_jax()
    with shown_progress() as on_event:
        verdict = verify(package, against, offline=offline, on_event=on_event)
    if junit is not None:
        write_junit(junit, f"masu verify {package}", cases_of(verdict))
    if as_json:
        print_json({"package": str(package), **verdict.to_json()})
    else:
        for remark in verdict.told:
            note(f"note: {remark}")
        said = f"{verdict.level if verdict.passed else 'no'}: {verdict.describe()}"
        click.echo(f"{package}: {printable(said)}")
    ctx.exit(YES if verdict.passed else NO)
