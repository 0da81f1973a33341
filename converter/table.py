"""The weight table: a dict that reads like the checkpoint.

    "model.layers.{i}.self_attn.{q,k,v}_proj.weight": "layers.{i}.mixer.qkvg_projection.weights"

- `{i}`      an index, carried to the same letter on the right;
- `{q,k,v}`  alternatives, concatenated along the first axis in this order; one that is named
             twice (`{q,k,k}`) is laid down twice;
- `{e}`      an index that the right side does not have: stacked along a new first axis;
- `Target`   a tensor whose shape, rows or values change on the way;
- `Coded`    one of the arrays of a matrix that is quantised already;
- `Unused`   a tensor that the engine does not need, with the reason.

Every checkpoint tensor must match exactly one row. A row without a tensor is fine: the engine's
config, not the table, says what must exist.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import numpy as np

from masu.converter.checkpoint import SourceTensor
from masu.specs.formats import WeightFormat
from masu.specs.tensors import Shape

Rows: TypeAlias = tuple[tuple[int, int], ...]
"""Ranges `start..stop` of a source tensor's first axis, in the order in which they are wanted."""

RowOrder: TypeAlias = Callable[[Shape], Rows]
"""The wanted rows of a tensor of this shape."""

View: TypeAlias = Callable[[SourceTensor], SourceTensor]
"""A tensor seen in another way, read as lazily as the first: see `converter/views.py`."""

TOKEN_TABLE = "embedding.token_table"
READOUT = "embedding.readout"
"""Where tables send the token embedding and the output head. Which engine tensors they become
depends on whether the two are tied (`converter/tie.py`)."""


@dataclass(frozen=True)
class Target:
    """Where a tensor goes and what happens to it on the way.

    Attributes:
        name: engine name, relative to the model's root.
        view: sees the source in another shape or order before anything else happens to it. A
            tuple has one for each alternative of the row.
        packed: the first axis counts experts: they are stacked, and `rows` are those of each.
        rows: picks and orders rows of the source; None takes all. A tuple has one such order for
            each alternative.
        values: changes float32 values, element by element.
        after: these experts follow those of the row without `after` that makes the same tensor.
    """

    name: str
    view: View | tuple[View | None, ...] | None = None
    packed: bool = False
    rows: RowOrder | tuple[RowOrder | None, ...] | None = None
    values: Callable[[np.ndarray], np.ndarray] | None = None
    after: bool = False

    def view_of(self, alternative: int) -> View | None:
        """How one of the alternatives is seen, by its place."""
        return self.view[alternative] if isinstance(self.view, tuple) else self.view

    def row_order(self, alternative: int) -> RowOrder | None:
        """The order of rows for one of the alternatives, by its place."""
        return self.rows[alternative] if isinstance(self.rows, tuple) else self.rows


@dataclass(frozen=True, kw_only=True)
class Coded(Target):
    """A source that is one stored array of a quantised matrix: its bytes are kept.

    The arrays of a matrix all have a row of the table, with the same format, except for what the
    format itself knows (`converter/coded.py`).

    Attributes:
        format: that of the matrix.
        array: which of the format's arrays this is, by its suffix.
    """

    format: WeightFormat
    array: str


@dataclass(frozen=True)
class Unused:
    """Attributes:
    left_out: it has a meaning that the package does not keep (a vision tower).
    wins: it takes its tensors also from rows that would take them too (a layer above the last).
    """

    reason: str
    left_out: bool = False
    wins: bool = False


Table: TypeAlias = Mapping[str, str | Target | Unused]


@dataclass(frozen=True)
class Row:
    """One line of a table with its alternatives written out.

    `sources` are patterns with `{i}` still in them, one per alternative, in their order.
    """

    sources: tuple[str, ...]
    target: Target | Unused

    @property
    def carried(self) -> frozenset[str]:
        """Indices that stand on both sides."""
        return frozenset() if isinstance(self.target, Unused) else _indices(self.target.name)


@dataclass(frozen=True)
class Match:
    """One checkpoint tensor and the row that takes it.

    `stack` holds the indices that only the left side has, `name` the engine name, "" if unused.
    """

    source: str
    row: Row
    name: str
    stack: tuple[int, ...]
    alternative: int


def second_half_first(shape: Shape) -> Rows:
    """Rows of a fused gate-and-up projection in the engine's order, up before gate."""
    half = shape[0] // 2
    return ((half, shape[0]), (0, half))


@dataclass(frozen=True)
class Scaled:
    """A change of values that a quantised matrix takes in its parameters, its codes untouched."""

    factor: float = 1.0
    divisor: float = 1.0

    def __call__(self, values: np.ndarray) -> np.ndarray:
        return values * np.float32(self.factor) / np.float32(self.divisor)


def times(factor: float) -> Scaled:
    """Folds a multiplier into the weights, in float32; the writer rounds once."""
    return Scaled(factor=factor)


def over(divisor: float) -> Scaled:
    """Folds a divisor into the weights, in float32."""
    return Scaled(divisor=divisor)


def prefixed(table: Table, old: str, new: str) -> dict[str, str | Target | Unused]:
    """The same table for a checkpoint that puts another prefix before its names."""
    return {new + key.removeprefix(old): target for key, target in table.items()}


def rows(table: Table) -> list[Row]:
    return [
        Row(_alternatives(source), Target(target) if isinstance(target, str) else target)
        for source, target in table.items()
    ]


def match(table: Table, names: Iterable[str]) -> tuple[list[Match], list[str]]:
    """Lay the table over a checkpoint's tensor names: matches, and problems in words."""
    patterns = [
        (row, alternative, _regex(source))
        for row in rows(table)
        for alternative, source in enumerate(row.sources)
    ]
    matches: list[Match] = []
    problems: list[str] = []
    for name in names:
        hits = [(r, a, hit) for r, a, regex in patterns if (hit := regex.fullmatch(name))]
        hits = [hit for hit in hits if _wins(hit[0])] or hits
        if len({(row, row.sources[place]) for row, place, _ in hits}) == 1:
            matches += [_resolve(name, *hit) for hit in hits]
        else:
            problems.append(f"{'ambiguous' if hits else 'unexpected'}  {name}")
    return matches, problems


def _wins(row: Row) -> bool:
    return isinstance(row.target, Unused) and row.target.wins


def wanted_sources(table: Table, engine_name: str) -> list[str]:
    """The checkpoint names that would make an engine tensor; `{e}` stays where it is stacked."""
    found: list[str] = []
    for row in rows(table):
        if isinstance(row.target, Unused):
            continue
        if hit := _regex(row.target.name).fullmatch(engine_name):
            found += [_fill(source, hit.groupdict()) for source in row.sources]
    return list(dict.fromkeys(found))


def _alternatives(source: str) -> tuple[str, ...]:
    chunks = re.split(r"({[^{}]*,[^{}]*})", source)
    options = [c[1:-1].split(",") if c.startswith("{") and "," in c else [c] for c in chunks]
    return tuple("".join(choice) for choice in product(*options))


def _regex(pattern: str) -> re.Pattern[str]:
    """`{i}` is a decimal index without leading zeros, `*` any text."""
    escaped = re.sub(r"\\{(\w+)\\}", r"(?P<\1>0|[1-9]\\d*)", re.escape(pattern))
    return re.compile(escaped.replace(r"\*", ".*"))


def _indices(pattern: str) -> frozenset[str]:
    return frozenset(re.findall(r"{(\w+)}", pattern))


def _fill(pattern: str, indices: Mapping[str, str]) -> str:
    for key, value in indices.items():
        pattern = pattern.replace(f"{{{key}}}", value)
    return pattern


def _resolve(name: str, row: Row, alternative: int, hit: re.Match[str]) -> Match:
    indices = hit.groupdict()
    stack = tuple(int(value) for key, value in indices.items() if key not in row.carried)
    engine_name = "" if isinstance(row.target, Unused) else _fill(row.target.name, indices)
    return Match(name, row, engine_name, stack, alternative)
