"""`masu capabilities`: what this installation can do, and why something is not there."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from masu.cli import options
from masu.cli.output import print_columns, print_json

if TYPE_CHECKING:
    from masu.inventory import BackendEntry, Capabilities

Row = tuple[str, str]


@click.command(short_help="Show backends, formats, kernels and versions.")
@options.as_json
def command(*, as_json: bool) -> None:
    """Show what this installation can do, and why something is not there.

    For each backend: its devices and types, the weight formats whose stored codes it multiplies
    with and those that it decodes at load, its kernels, and the operations that give a row the
    same bits however many rows share the call.
    """
    from masu.cli.jax_settings import configure_jax
    from masu.inventory import capabilities

    configure_jax()
    found = capabilities()
    if as_json:
        print_json(_document(found))
    else:
        _print(found)


def _document(found: "Capabilities") -> dict[str, Any]:
    """The fields as they are, and of each backend also what follows from them."""
    backends = [
        {**asdict(each), "available": each.available, "row_invariant": each.row_invariant}
        for each in found.backends
    ]
    return {**asdict(found), "backends": backends}


def _print(found: "Capabilities") -> None:
    print_columns([("platform", found.platform), ("processor", found.processor)])
    for each in found.backends:
        is_default = ", the default" if each.name == found.default_backend else ""
        click.echo(f"\nbackend {each.name}{is_default}")
        print_columns(_rows(each))
    click.echo()
    print_columns(
        [
            ("encoders", found.encoders_why_not or "compiled"),
            ("methods", ", ".join(found.methods)),
            ("recipes", ", ".join(found.recipes)),
            ("engines", ", ".join(found.engines)),
            *((name, text or "not installed") for name, text in found.versions.items()),
        ]
    )


def _rows(backend: "BackendEntry") -> Iterator[Row]:
    if backend.why_not is not None:
        yield "  not available", backend.why_not
        return
    yield "  devices", ", ".join(backend.devices)
    yield "  types", ", ".join(backend.dtypes)
    yield "  as stored", ", ".join(backend.in_place) or "no format"
    yield "  decoded", ", ".join(backend.decoded) or "no format"
    yield "  activations", ", ".join(("as computed", *backend.roundings))
    if backend.instruction_set is not None:
        yield "  instructions", backend.instruction_set
    for kernel in backend.kernels:
        yield f"  {kernel.name}", kernel.serves
    yield "  row-invariant", ", ".join(backend.row_invariant) or "nothing"
