"""Puts the tables of quantisation.json into quantisation.md: `python docs/quantisation_page.py`.

The figures are written by `benchmarks/quantisation.py`.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "quantisation.md"
RESULTS = PAGE.with_suffix(".json")

HEADER = (
    "| stored as | MB | bits | mean KL | p99 KL | top-1 | perplexity | s | peak MB |",
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
)
TABLE_HEADER = (
    "| stored as | tables, MB | package, MB | mean KL | p99 KL | top-1 |",
    "|---|--:|--:|--:|--:|--:|",
)

Record = Mapping[str, Any]


def with_tables(page: str, results: Record) -> str:
    """The page with everything between its markers made anew."""
    for name, lines in sections(results).items():
        begin, end = f"<!-- {name}: made by docs/quantisation_page.py -->\n", "<!-- end -->"
        before, found, rest = page.partition(begin)
        if not found:
            raise SystemExit(f"{PAGE.name} has no place for {name!r}")
        _, _, after = rest.partition(end)
        page = "\n".join([before + begin, *lines, "", end + after])
    return page


def sections(results: Record) -> dict[str, list[str]]:
    """The lines of each marked place, by its name."""
    found: dict[str, list[str]] = {}
    for name, model in results["models"].items():
        found[name] = [*introduction(name, model), "", *table(model)]
        if any(is_of_tables(line) for line in model["lines"]):
            found[f"{name} tables"] = list(tables(model))
    return found


def introduction(name: str, model: Record) -> Iterator[str]:
    yield f"**{name}** (`pypi:{model['source']}`), {model['parameters']:,} parameters in bfloat16."
    yield (
        f"Measured on the first {model['tokens']:,} tokens of masu's evaluation text; the permuted "
        f"copy differs from the original by a KL of {model['permuted_kl']:.0e}."
    )


def table(model: Record) -> Iterator[str]:
    yield from HEADER
    bits = 8 * model["bytes"] / model["parameters"]
    whole = f"{model['bytes'] / 1e6:.1f} | {bits:.2f} | 0 | 0 | 100.0 %"
    yield f"| full precision | {whole} | {model['reference_perplexity']:.2f} | | |"
    lines = {name: line for name, line in model["lines"].items() if not is_of_tables(name)}
    for name in sorted(lines, key=lambda name: (-bits_of(lines[name]), lines[name]["mean_kl"])):
        line = lines[name]
        yield (
            f"| {name} | {line['bytes'] / 1e6:.1f} | {bits_of(line):.2f} | {fidelity(line)} | "
            f"{line['perplexity']:.2f} | {line['seconds']:.0f} | {line['peak_bytes'] / 1e6:.0f} |"
        )


def tables(model: Record) -> Iterator[str]:
    """What becomes of the tables of tokens alone."""
    yield from TABLE_HEADER
    for name, line in model["lines"].items():
        if is_of_tables(name) or "mobile" in name:
            sizes = ", ".join(
                f"{kind.removesuffix('_embedding').replace('embedding', 'tied')} {size / 1e6:.1f}"
                for kind, size in line["tables"].items()
            )
            yield f"| {name} | {sizes} | {line['bytes'] / 1e6:.1f} | {fidelity(line)} |"


def fidelity(line: Record) -> str:
    return f"{line['mean_kl']:.4f} | {line['p99_kl']:.3f} | {100 * line['top1']:.1f} %"


def bits_of(line: Record) -> float:
    """Bytes on disk over parameters."""
    return 8 * line["bytes"] / line["parameters"]


def is_of_tables(name: str) -> bool:
    """Lines in which the layers stay in full precision."""
    return name.startswith("only ")


def main() -> None:
    PAGE.write_text(with_tables(PAGE.read_text(), json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
