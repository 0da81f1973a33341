"""`masu quantize`: a package in, the same model in other weight formats out."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from masu.cli import options
from masu.cli.output import note, print_json, size
from masu.cli.progress import shown_progress

if TYPE_CHECKING:
    from masu.quantisation import Quantised


@click.command(short_help="Store a package's matrices in other formats.")
@click.argument("package", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    "out",
    required=True,
    type=options.FOLDER,
    metavar="DIR",
    help="The new package's folder.",
)
@click.option(
    "--recipe",
    required=True,
    metavar="R",
    help="A ready-made recipe by name (see list-recipes), or a TOML or JSON file.",
)
@options.calibration
@options.report
@click.option("--overwrite", is_flag=True, help="Replace a package that is already there.")
@options.as_json
def command(package: Path, *, out: Path, recipe: str, as_json: bool, **chosen: Any) -> None:
    """Write PACKAGE again, with its matrices in the formats that a recipe says.

    The package that is read stays as it is. Prints the folder of the new one.
    """
    from masu.quantisation import quantize

    with shown_progress() as on_event:
        finished = quantize(package, out, recipe, on_event=on_event, **chosen)
    if as_json:
        print_json(_figures(finished))
        return
    _describe(finished)
    click.echo(str(finished.path))


def _figures(finished: "Quantised") -> dict[str, Any]:
    return {
        "path": str(finished.path),
        "recipe": finished.recipe,
        "bytes": finished.bytes,
        "source_bytes": finished.source_bytes,
        "bits_per_weight": round(finished.bits_per_weight, 3),
        "matrices": {
            name: None if each.format is None else each.format.model_dump()
            for name, each in finished.assignments.items()
        },
        "refusals": list(finished.refusals),
    }


def _describe(finished: "Quantised") -> None:
    changed = [each for each in finished.assignments.values() if each.format is not None]
    note(
        f"{finished.recipe}: {len(changed)} matrices quantised, "
        f"{size(finished.source_bytes)} -> {size(finished.bytes)}, "
        f"{finished.bits_per_weight:.2f} bits per parameter"
    )
    for name, each in finished.assignments.items():
        if each.format is None:
            note(f"note: {name} {list(each.shape)} stays as it is (rule {each.rule!r})")
    if finished.refusals:
        note("warning: the engine will not load this package, masu's own runtime will:")
        for refusal in finished.refusals:
            note(f"  {refusal}")
