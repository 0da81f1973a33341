"""Where things stand in a chart: plain numbers, which the page's template draws as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10

WIDTH, HEIGHT = 360, 220
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 12, 34
"""Margins, with room for the labels of the axes. A phone shows the chart at its natural size."""
WANTED_TICKS = 4
HEADROOM = 1.08
"""How far an axis goes beyond its largest value."""


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: its place in the drawing, and what it says."""

    at: float
    label: str


@dataclass(frozen=True)
class Point:
    """One package: its place in the drawing, and its number in the legend."""

    x: float
    y: float
    number: int


@dataclass(frozen=True)
class Scatter:
    """A chart of points, ready to be drawn in a view box of `width` times `height`."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    points: tuple[Point, ...]


def scatter(values: Sequence[tuple[float, float]]) -> Scatter:
    """Points `(x, y)`, none negative, on axes that begin at zero."""
    x_end = max(x for x, _ in values) * HEADROOM or 1.0
    y_end = max(y for _, y in values) * HEADROOM or 1.0

    def across(x: float) -> float:
        return round(LEFT + x / x_end * (WIDTH - LEFT - RIGHT), 1)

    def up(y: float) -> float:
        return round(HEIGHT - BOTTOM - y / y_end * (HEIGHT - TOP - BOTTOM), 1)

    return Scatter(
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        right=WIDTH - RIGHT,
        top=TOP,
        bottom=HEIGHT - BOTTOM,
        x_ticks=tuple(Tick(across(value), f"{value:g}") for value in ticks(x_end)),
        y_ticks=tuple(Tick(up(value), f"{value:g}") for value in ticks(y_end)),
        points=tuple(Point(across(x), up(y), n) for n, (x, y) in enumerate(values, start=1)),
    )


def ticks(end: float) -> list[float]:
    """Round numbers from 0 up to `end`, about as many as an axis has room for."""
    raw = end / WANTED_TICKS
    power = 10.0 ** floor(log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)
    return [float(f"{count * step:.12g}") for count in range(floor(end / step) + 1)]


def shares(values: Sequence[float]) -> list[float]:
    """Per cent of the largest value: the lengths of bars."""
    largest = max(values, default=0.0)
    return [round(100 * value / largest, 2) if largest else 0.0 for value in values]
