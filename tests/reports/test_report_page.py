"""The page of a report, read as HTML: its figures are those of report.json, nothing is fetched."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from measured_reports import HOSTILE, fidelity, hostile_report

from masu.fidelity import make_report
from masu.reports.charts import scatter, shares, ticks
from masu.reports.html import render

NEVER_CLOSED = ("meta", "link")


class Page(HTMLParser):
    """Elements, figures with what is shown of them, and the text of each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.figures: list[tuple[str, str]] = []
        self.scripts: list[str] = []
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in NEVER_CLOSED:
            self._inside.append(tag)
        if tag == "data":
            self.figures.append((str(dict(attrs)["value"]), ""))
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside.pop()

    def handle_data(self, data: str) -> None:
        if self._inside and self._inside[-1] == "data":
            self.figures[-1] = (self.figures[-1][0], data)
        if self._inside and self._inside[-1] == "script":
            self.scripts[-1] += data


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(render(hostile_report()))


def numbers(value: Any) -> set[float]:
    """All numbers in parsed JSON."""
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return set().union(*map(numbers, parts))
    return {float(value)} if isinstance(value, int | float) else set()


def test_the_report_is_in_the_page_word_for_word(page: Page) -> None:
    assert json.loads(page.scripts[0]) == json.loads(hostile_report().to_bytes())


def test_every_figure_is_one_of_the_report(page: Page) -> None:
    known = numbers(json.loads(hostile_report().to_bytes()))
    sums = {sum(each.bytes for each in hostile_report().fidelity.matrices)}  # type: ignore[union-attr]
    assert {float(value) for value, _ in page.figures} <= known | sums


def test_what_is_shown_is_the_figure_rounded(page: Page) -> None:
    """To three digits at least; per cent and bytes in their units."""
    for value, shown in page.figures:
        number, _, unit = shown.replace(",", "").partition(" ")
        scale = {"%": 0.01, "MB": 1e6, "kB": 1e3}.get(unit, 1.0)
        half = {"%": 0.0005, "MB": 5e4, "kB": 50.0}.get(unit, abs(float(value)) * 0.006)
        assert float(number) * scale == pytest.approx(float(value), abs=half + 1e-12), shown


def test_the_headline_figures_are_there(page: Page) -> None:
    values = [float(value) for value, _ in page.figures]
    found = fidelity()
    for expected in (found.mean_kl, found.p99_kl, found.top1_agreement, found.perplexity,
                     found.reference_perplexity, found.bytes, found.bits_per_weight,
                     *(each.own for each in found.layers), *(each.kl for each in found.worst),
                     *(each.error for each in found.matrices)):  # fmt: skip
        assert expected in values


def test_text_stays_text(page: Page) -> None:
    assert "img" not in {tag for tag, _ in page.elements}
    assert len(page.scripts) == 2
    assert not any("console.error" in script for script in page.scripts[1:])


def test_nothing_is_fetched(page: Page) -> None:
    for tag, attributes in page.elements:
        assert not attributes.get("src"), tag
        assert (attributes.get("href") or "data:,") == "data:,"
    assert "@import" not in render(hostile_report())
    assert "url(" not in render(hostile_report())


def test_layers_and_matrices_begin_with_the_largest_error() -> None:
    text = render(hostile_report())
    for section, expected in (
        ("layers", max(fidelity().layers, key=lambda each: each.own)),
        ("matrices", max(fidelity().matrices, key=lambda each: each.error)),
    ):
        part = text[text.index(f'<section id="{section}">') :]
        assert re.search(r'<tr title="([^"]*)"', part).group(1) == expected.name  # type: ignore[union-attr]


def test_bars_are_as_long_as_their_errors() -> None:
    part = render(hostile_report()).split('<section id="matrices">')[1]
    widths = [float(width) for width in re.findall(r'<rect width="([^"]*)"', part)]
    errors = sorted((each.error for each in fidelity().matrices * 5), reverse=True)
    assert widths == pytest.approx([100 * error / errors[0] for error in errors], abs=0.01)


def test_a_report_without_fidelity_has_a_page() -> None:
    text = render(make_report("bare", fidelity=None, seconds={"plan": 1.0}))
    assert "Fidelity was not measured" in text
    assert "<svg" not in text
    assert HOSTILE not in text


def test_the_page_in_the_docs_is_a_picture_of_moderate_size() -> None:
    picture = Path(__file__).parents[2] / "docs/images/report.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 300_000


def test_the_same_report_gives_the_same_page() -> None:
    assert render(hostile_report()) == render(hostile_report())


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (1.0, [0, 0.5, 1]),
        (0.43, [0, 0.2, 0.4]),
        (290, [0, 100, 200]),
        (3.1e-5, [0, 1e-5, 2e-5, 3e-5]),
    ],
)
def test_ticks_are_round_numbers(end: float, expected: list[float]) -> None:
    assert ticks(end) == pytest.approx(expected)


def test_points_stand_where_their_values_are() -> None:
    chart = scatter([(100, 0.5), (200, 0.0), (50, 0.25)])
    left, low, half = chart.points
    assert low.y == chart.bottom
    assert left.x - chart.left == pytest.approx((low.x - chart.left) / 2, abs=0.1)
    assert chart.bottom - half.y == pytest.approx((chart.bottom - left.y) / 2, abs=0.1)
    assert all(chart.left <= each.x <= chart.right for each in chart.points)
    assert scatter([(1, 0.0)]).points[0].y == chart.bottom


def test_bars_are_shares_of_the_longest() -> None:
    assert shares([1, 4, 0]) == [25, 100, 0]
    assert shares([0, 0]) == [0, 0]
