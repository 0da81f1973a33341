"""`masu convert --from-manifest`: a package made again, and compared with what is recorded."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from masu.cli.failure import NO, YES
from masu.cli.jax_settings import configure_jax
from masu.cli.output import note, print_json
from masu.cli.progress import shown_progress

RECORDED = ("dtype", "engine", "family", "revision", "recipe")
"""What the manifest says, so that an option cannot."""

if TYPE_CHECKING:
    from masu.pipeline import Conversion


def run(
    ctx: click.Context,
    manifest: Path,
    source: str | None,
    out: Path | None,
    as_json: bool,
    running: dict[str, Any],
    describe: "Callable[[Conversion], None]",
) -> None:
    """Say how it went with `describe`, and then what differs.

    Exit status 0 if the package is the same in every byte, 1 if not."""
    from masu.rebuild import rebuild

    given = [n for n in RECORDED if ctx.get_parameter_source(n) is ParameterSource.COMMANDLINE]
    if given:
        listed = ", ".join(f"--{name}" for name in given)
        raise click.UsageError(f"--from-manifest already says what {listed} would")
    if running["verify"]:
        configure_jax()
    with shown_progress() as on_event:
        done = rebuild(manifest, source, out, on_event=on_event, **running)
    if as_json:
        finished = {**asdict(done.conversion), "path": str(done.conversion.path)}
        differences = list(done.differences)
        print_json({**finished, "identical": done.identical, "differences": differences})
    else:
        describe(done.conversion)
        for difference in done.differences:
            note(f"differs: {difference}")
        verdict = "identical" if done.identical else "not identical"
        click.echo(f"{done.conversion.path}: {verdict}")
    ctx.exit(YES if done.identical else NO)
