"""The page of a comparison: a table for each model, and the receipt."""

from typing import Any

ROWS = (
    ("decode", "decode, tokens/s", 1.0),
    ("prefill", "prefill of 1,024, tokens/s", 1.0),
    ("first_token", "first token after 64, ms", 1e3),
    ("peak", "peak memory, MB", 1e-6),
)


def page(record: dict[str, Any]) -> str:
    """Everything on it comes from the record."""
    lines = [
        "# Speed",
        "",
        "Made by `benchmarks/compare.py`; how it measures: [benchmarks.md](benchmarks.md).",
        "Medians, lowest and highest of all rounds in brackets, then the ratio to masu.",
    ]
    for name, model in record["models"].items():
        lines += ["", f"## {name}", "", *_table(model), "", *_remarks(model)]
    lines += ["", "## Receipt", "", *_receipt(record)]
    return "\n".join(lines) + "\n"


def _table(model: dict[str, Any]) -> list[str]:
    figures = model["figures"]
    names = list(figures)
    lines = ["| | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    bits = " | ".join(f"{model['bits'][name]:.2f}" for name in names)
    lines.append(f"| bits per weight | {bits} |")
    for figure, label, scale in ROWS:
        base = figures["masu"][figure]["median"]
        cells = [_cell(figures[name].get(figure), base, scale) for name in names]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    for key, label in (
        ("greedy_equal", "greedy tokens as the reference's, until the first other"),
        ("same_choice", "the reference's token chosen after its own beginning"),
    ):
        told = [model["agreement"].get(name) for name in names]
        cells = [f"{each[key]} of {each['of']}" if each else "-" for each in told]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def _cell(found: dict[str, float] | None, base: float, scale: float) -> str:
    if found is None:
        return "-"
    middle, low, high = (found[key] * scale for key in ("median", "low", "high"))
    return f"{middle:,.1f} ({low:,.1f} to {high:,.1f}), {found['median'] / base:.2f}"


def _remarks(model: dict[str, Any]) -> list[str]:
    found = model["memory"]
    sizes = {
        key: f"{found[key] / 1e6:,.0f} MB" for key in ("resident", "mapped", "state", "margin")
    }
    verdict = "within" if found["within"] else "above"
    lines = [
        f"masu's process holds {sizes['resident']} while it decodes: {verdict} mapped weights "
        f"({sizes['mapped']}), state ({sizes['state']}) and {sizes['margin']}."
    ]
    lines += [f"Absent: {name} ({reason})." for name, reason in model["absent"].items()]
    return lines


def _receipt(record: dict[str, Any]) -> list[str]:
    lines = [f"- {key}: {value}" for key, value in record["receipt"].items()]
    for name, model in record["models"].items():
        for runtime, versions in model["versions"].items():
            told = ", ".join(f"{key} {value}" for key, value in versions.items())
            lines.append(f"- {name}, {runtime}: {told}")
    return lines
