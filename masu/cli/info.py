"""`masu info`: what a package holds, or a source would become."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from masu.cli import options
from masu.cli.completion import complete_source
from masu.cli.output import note, print_columns, print_json, size
from masu.specs.printable import printable

if TYPE_CHECKING:
    from masu.specs.manifest import Ledger
    from masu.specs.report import Fidelity
    from masu.specs.summary import Summary


@click.command(short_help="Show sizes, weight formats and memory.")
@click.argument("package_or_source", shell_complete=complete_source)
@click.option(
    "--context",
    type=click.IntRange(min=1),
    default=4096,
    show_default=True,
    metavar="N",
    help="Length of the conversation whose caches the memory includes, in tokens.",
)
@click.option("--ledger", is_flag=True, help="Also say what became of every item of the source.")
@click.option("--fidelity", is_flag=True, help="Also say what was measured against the source.")
@options.as_json
def command(
    package_or_source: str, context: int, *, ledger: bool, fidelity: bool, as_json: bool
) -> None:
    """Show sizes, weight formats and the least memory that a run takes.

    Nothing is loaded or measured. For a source, this is about the bfloat16 package that it would
    become. Fidelity is what report.json says, which convert and quantize write.
    """
    from masu.contents import overview

    found = overview(package_or_source, context=context)
    measured = found.report.fidelity if found.report else None
    if as_json:
        kept: dict[str, Any] = {}
        if ledger:
            kept["ledger"] = found.ledger.model_dump() if found.ledger else None
        if fidelity:
            kept["fidelity"] = measured.model_dump(mode="json") if measured else None
        print_json({"kind": found.kind, **_figures(found.summary), **kept})
        return
    _print_summary(found.kind, found.summary)
    if ledger:
        _print_ledger(found.ledger)
    if fidelity:
        _print_fidelity(measured)


def _figures(summary: "Summary") -> dict[str, Any]:
    return {
        **asdict(summary),
        "bits_per_weight": summary.bits_per_weight,
        "memory_floor": summary.memory_floor,
    }


def _print_summary(kind: str, summary: "Summary") -> None:
    print_columns(
        [
            (kind, f"{summary.model_type}, {summary.layers} layers, {summary.dtype}"),
            ("parameters", f"{summary.parameters:,}"),
            ("weights", f"{size(summary.weight_bytes)} in {summary.tensors} tensors, "
                        f"{summary.bits_per_weight:.2f} bits per weight"),
            ("state", f"{size(summary.state_bytes)} after {summary.context} tokens"),
            ("memory", f"at least {size(summary.memory_floor)}"),
            *(
                ("format", f"{label}: {share.matrices} matrices, {size(share.bytes)}, "
                           f"{share.bits_per_weight:.2f} bits per weight")
                for label, share in summary.formats.items()
            ),
        ]
    )  # fmt: skip


def _print_ledger(ledger: "Ledger | None") -> None:
    if ledger is None:
        note("no ledger: the package has no manifest.json")
        return
    groups = ("tensor", ledger.tensors), ("key", ledger.config_keys), ("file", ledger.files)
    for kind, entries in groups:
        print_columns(
            (kind, name, entry.status, ", ".join(entry.into), entry.reason or "")
            for name, entry in entries.items()
        )
    for remark in ledger.notes:
        click.echo(f"note  {printable(remark)}")


def _figures_of(fidelity: "Fidelity") -> list[tuple[str, str]]:
    text, kl = fidelity.text, (fidelity.mean_kl, fidelity.p99_kl)
    losses = fidelity.perplexity, fidelity.reference_perplexity
    return [
        ("against", f"{fidelity.reference}, at {text.positions:,} positions of {text.name}"),
        ("KL", "{:.4g} nats on average, 99th percentile {:.4g}".format(*kl)),
        ("top-1", f"{fidelity.top1_agreement:.2%} of first choices are the same"),
        ("perplexity", "{:.4g}, of the reference {:.4g}".format(*losses)),
        ("bits", f"{fidelity.bits_per_weight:.3f} per weight, {size(fidelity.bytes)} on disk"),
    ]


def _print_fidelity(fidelity: "Fidelity | None") -> None:
    """The figures, then layers and matrices from the largest error down, then the worst places."""
    if fidelity is None:
        note("no fidelity: nothing was measured (masu quantize and masu convert --recipe do so)")
        return
    print_columns(_figures_of(fidelity))
    print_columns(
        ("layer", each.name, f"own {each.own:.3g}", f"accumulated {each.accumulated:.3g}")
        for each in sorted(fidelity.layers, key=lambda each: -each.own)
    )
    print_columns(
        ("matrix", each.name, f"error {each.error:.3g}", f"{each.bits_per_weight:.2f} bits")
        for each in sorted(fidelity.matrices, key=lambda each: -each.error)
    )
    for worst in fidelity.worst:
        place = f"{worst.before}[{worst.token}]{worst.after}"
        click.echo(f"worst  KL {worst.kl:.3f} at token {worst.position}: {place!r}")
