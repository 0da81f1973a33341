"""The page of a comparison: a table for each model, and the receipt."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

ROWS = (
    ("decode", "decode, tokens/s", 1.0),
    ("prefill", "prefill, tokens/s", 1.0),
    ("first_token", "first token after 64, ms", 1e3),
    ("peak", "peak memory, MB", 1e-6),
)
COUNTS = (("read", "tokens read in prefill"), ("written", "tokens written in decode"))


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
        if model["tasks"]:
            lines += ["", f"### Tasks, {name}", "", *_tasks(model)]
    lines += ["", "## Receipt", "", *_receipt(record)]
    return "\n".join(lines) + "\n"


def _table(model: dict[str, Any]) -> list[str]:
    figures = model["figures"]
    names = list(figures)
    lines = ["| | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    bits = " | ".join(f"{model['bits'][name]:.2f}" for name in names)
    lines.append(f"| bits per weight | {bits} |")
    lines.append(f"| activations | {' | '.join(model['activations'][name] for name in names)} |")
    for figure, label, scale in ROWS:
        base = figures["masu"][figure]["median"]
        cells = [_cell(figures[name].get(figure), base, scale) for name in names]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    for count, label in COUNTS:
        cells = [_count(figures[name][count]) for name in names]
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


def _count(found: Mapping[str, float]) -> str:
    low, high = (f"{found[key]:,.0f}" for key in ("low", "high"))
    return low if low == high else f"{low} to {high}"


def _tasks(model: dict[str, Any]) -> list[str]:
    """A row for each task, and one for all."""
    tasks = model["tasks"]
    names = [name for name in model["figures"] if any(name in task["answers"] for task in tasks)]
    lines = [
        "First token in ms, tokens/s after it, and how many tokens are those of transformers in",
        "float32, until the first other, of how many it wrote. Each task is asked once.",
        "",
        "| task | tokens | " + " | ".join(names) + " |",
        "|---|---|" + "---|" * len(names),
    ]
    for task in tasks:
        cells = [_answer([task["answers"][n]] if n in task["answers"] else []) for n in names]
        lines.append(f"| {task['name']} | {task['prompt_tokens']} | {' | '.join(cells)} |")
    every = [[task["answers"][n] for task in tasks if n in task["answers"]] for n in names]
    total = sum(task["prompt_tokens"] for task in tasks)
    lines.append(f"| all: medians, sums | {total:,} | {' | '.join(map(_answer, every))} |")
    return lines


def _answer(answers: Sequence[Mapping[str, Any]]) -> str:
    """Of one or several: the medians, and the sums of tokens."""
    if not answers:
        return "-"
    rates = [each["decode"] for each in answers if each["decode"] is not None]
    told = [f"{median(each['first_token'] for each in answers) * 1e3:,.0f} ms"]
    told += [f"{median(rates):,.1f}/s"] if rates else []
    if all(each["equal"] is not None for each in answers):
        equal, written = (sum(each[key] for each in answers) for key in ("equal", "written"))
        told.append(f"{equal:,} of {written:,}")
    return ", ".join(told)


def _most(model: dict[str, Any], count: str) -> float:
    return max(found[count]["median"] for found in model["figures"].values())


def _remarks(model: dict[str, Any]) -> list[str]:
    found = model["memory"]
    sizes = {
        key: f"{found[key] / 1e6:,.0f} MB" for key in ("resident", "mapped", "state", "margin")
    }
    verdict = "within" if found["within"] else "above"
    lines = [
        f"masu's process holds {sizes['resident']} while it decodes: {verdict} mapped weights "
        f"({sizes['mapped']}), state ({sizes['state']}) and {sizes['margin']}.",
    ]
    slow = [
        name
        for name, found in model["figures"].items()
        if any(found[count]["median"] < _most(model, count) for count, _ in COUNTS)
    ]
    if slow:
        told = f"so that an answer takes no longer than about {model['seconds']:g} s"
        lines.append(f"Fewer tokens than the others: {', '.join(slow)}, {told}.")
    lines += [f"Absent: {name} ({reason})." for name, reason in model["absent"].items()]
    lines += [f"Left before the end: {name} ({reason})." for name, reason in model["left"].items()]
    return lines


def _receipt(record: dict[str, Any]) -> list[str]:
    lines = [f"- {key}: {value}" for key, value in record["receipt"].items()]
    for name, model in record["models"].items():
        for runtime, versions in model["versions"].items():
            told = ", ".join(f"{key} {value}" for key, value in versions.items())
            lines.append(f"- {name}, {runtime}: {told}")
    return lines
