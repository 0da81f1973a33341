"""A report as one HTML page: nothing is fetched, and every figure is that of report.json."""

from collections import defaultdict
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from masu.reports.charts import scatter, shares
from masu.specs.report import Fidelity, Report

TEMPLATE = "page.html"
MEGABYTE = 1e6


@dataclass(frozen=True)
class _Row:
    """A line of a table about layers or matrices, with the lengths of its bars in per cent."""

    place: int
    item: Any
    bars: tuple[float, ...]


@dataclass(frozen=True)
class _Share:
    """The matrices that are kept in one format."""

    format: str
    matrices: int
    bytes: int


@dataclass(frozen=True)
class _Entry:
    """A line of the legend of size against KL; no KL: the full-precision model."""

    name: str
    bytes: int
    mean_kl: float | None
    bits_per_weight: float | None


def render(report: Report) -> str:
    """The page: readable on a phone, in light and dark, with report.json inside it.

    `<script type="application/json" id="report">` holds the report; a figure that is shown rounded
    stands in `<data value="...">` with all its digits.
    """
    from minijinja import Environment

    text = (files("masu.reports") / TEMPLATE).read_text(encoding="utf-8")
    environment = Environment(
        templates={TEMPLATE: text},
        undefined_behavior="strict",
        trim_blocks=True,
        lstrip_blocks=True,
        filters={
            "significant": _significant,
            "size": _size,
            "per_cent": _per_cent,
            "visible": _visible,
            "short": _short,
        },
    )
    context = {"report": report.model_dump(mode="json"), "json": _embedded(report)}
    if report.fidelity is not None:
        context |= _drawn(report, report.fidelity)
    return environment.render_template(TEMPLATE, **context)


def _drawn(report: Report, fidelity: Fidelity) -> dict[str, Any]:
    legend = _legend(report, fidelity)
    layers, matrices = fidelity.layers, fidelity.matrices
    # Whatever the layer, both bars have one scale: a long one is a large error in either column.
    bars = shares([each.own for each in layers] + [each.accumulated for each in layers])
    pairs = zip(bars[: len(layers)], bars[len(layers) :], strict=True)
    return {
        "chart": scatter([(e.bytes / MEGABYTE, e.mean_kl or 0.0) for e in legend]),
        "legend": legend,
        "formats": _formats(fidelity),
        "layers": sorted(
            (_Row(at, each, bar) for at, (each, bar) in enumerate(zip(layers, pairs, strict=True))),
            key=lambda row: -row.item.own,
        ),
        "matrices": sorted(
            (
                _Row(at, each, (bar,))
                for at, (each, bar) in enumerate(
                    zip(matrices, shares([each.error for each in matrices]), strict=True)
                )
            ),
            key=lambda row: -row.item.error,
        ),
    }


def _legend(report: Report, fidelity: Fidelity) -> list[_Entry]:
    return [
        _Entry(report.package, fidelity.bytes, fidelity.mean_kl, fidelity.bits_per_weight),
        *(
            _Entry(other.name, other.bytes, other.mean_kl, other.bits_per_weight)
            for other in report.others
        ),
        _Entry(f"{fidelity.reference}, the reference", fidelity.reference_bytes, None, None),
    ]


def _formats(fidelity: Fidelity) -> list[_Share]:
    sizes: defaultdict[str, list[int]] = defaultdict(list)
    for matrix in fidelity.matrices:
        sizes[matrix.format].append(matrix.bytes)
    found = [_Share(label, len(each), sum(each)) for label, each in sizes.items()]
    return sorted(found, key=lambda share: -share.bytes)


def _embedded(report: Report) -> str:
    """The very text of report.json, spelled so that no `</script>` in it can end the element."""
    return report.to_bytes().decode("ascii").replace("<", "\\u003c")


def _significant(value: float, digits: int = 4) -> str:
    """`0.3998`, `26.87`, `29,270`, `6.70e-09`."""
    if 0 < abs(value) < 1e-4:
        return f"{value:.{digits - 2}e}"
    if abs(value) >= 10 ** (digits - 1):
        return f"{float(f'{value:.{digits}g}'):,.0f}"
    return f"{value:#.{digits}g}" if value else "0"


def _size(count: int) -> str:
    return f"{count / 1e3:,.1f} kB" if count < MEGABYTE else f"{count / MEGABYTE:,.1f} MB"


def _per_cent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _visible(text: str) -> str:
    """Spaces, ends of lines and control characters as something that can be seen."""
    signs = {" ": "\u2423", "\n": "\u21b5", "\t": "\u21e5"}
    return "".join(signs.get(c, c if c.isprintable() else f"\\x{ord(c):02x}") for c in text)


def _short(name: str) -> str:
    """A tensor's name without what all of them share."""
    path = name.partition(".")[2].removeprefix("transformer.")
    return path.removesuffix(".weights")
