"""What commands print on stdout: JSON for programs, aligned columns and sizes for people."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from masu.specs.printable import printable, printable_lines


def print_json(value: Any) -> None:
    """One JSON document, indented, ending in a newline."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_columns(rows: Iterable[Sequence[str]]) -> None:
    """Rows of text, each column as wide as its widest cell."""
    table = [tuple(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def size(count: int) -> str:
    """Bytes as people read them, in powers of 1000: `269.1 MB`."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes"


def durations(seconds: Mapping[str, float]) -> str:
    """How long each step took: `plan 0.2 s, write 1.3 s`."""
    return ", ".join(f"{step} {taken:.1f} s" for step, taken in seconds.items())


def note(text: str) -> None:
    """A line for people, on stderr."""
    click.echo(printable_lines(text), err=True)
