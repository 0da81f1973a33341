"""The page of a report in a headless Chromium, as a phone and as a desktop show it."""

import json
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from measured_reports import fidelity, hostile_report

from masu.fidelity import write_page

pytestmark = pytest.mark.browser

PHONE, DESKTOP = {"width": 360, "height": 740}, {"width": 1200, "height": 800}
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class Served(SimpleHTTPRequestHandler):
    """Files of a folder; what was asked for is kept."""

    asked: list[str]

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        self.asked.append(self.path)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """Where the page is, and everything that was asked of the server: also a favicon would be."""
    folder, asked = tmp_path_factory.mktemp("site"), []
    write_page(folder / "report.html", hostile_report())
    handler = partial(type("Handler", (Served,), {"asked": asked}), directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/report.html", asked
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        pytest.skip(f"no Chromium: none of {', '.join(CHROMIUM)}")
    with driver.sync_playwright() as playwright:
        # Its sandbox needs rights that containers seldom give; the page is our own.
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(params=[(PHONE, "light"), (DESKTOP, "dark")], ids=["phone", "desktop"])
def page(
    request: pytest.FixtureRequest, browser: Any, site: tuple[str, list[str]]
) -> Iterator[Any]:
    """An open page; at the end, what it said and asked for must have been nothing."""
    viewport, scheme = request.param
    context = browser.new_context(viewport=viewport, color_scheme=scheme)
    opened, said, asked = context.new_page(), [], []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda sent: asked.append(sent.url))
    opened.goto(site[0], wait_until="networkidle")
    yield opened
    assert said == []
    assert asked == [site[0]]
    assert set(site[1]) == {"/report.html"}
    context.close()


def test_it_never_scrolls_sideways(page: Any) -> None:
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= page.viewport_size["width"]
    for button in page.locator(".unfold").all():
        button.click()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    edges = page.locator("main *").evaluate_all(
        "all => all.map(each => each.getBoundingClientRect().right)"
    )
    assert max(edges) <= page.viewport_size["width"] + 1


def test_its_figures_are_those_of_the_report(page: Any) -> None:
    inside = json.loads(page.locator("#report").text_content())
    assert inside == json.loads(hostile_report().to_bytes())
    names = ("mean_kl", "p99_kl", "top1_agreement", "perplexity", "reference_perplexity", "bytes",
             "bits_per_weight")  # fmt: skip
    for name in names:
        figure = page.locator(f"#{name} data")
        assert float(figure.get_attribute("value")) == inside["fidelity"][name]
        assert figure.is_visible()
    for table, key, name in (("layers", "own", 2), ("matrices", "error", 3)):
        values = f"#{table} tbody tr td:nth-child({name}) data"
        shown = page.locator(values).evaluate_all("all => all.map(each => Number(each.value))")
        assert shown == sorted((each[key] for each in inside["fidelity"][table]), reverse=True)


def test_tables_are_sorted_by_what_is_pressed(page: Any) -> None:
    def column(number: int) -> list[float]:
        cells = page.locator(f"#layers tbody td:nth-child({number})")
        return cells.evaluate_all("all => all.map(each => Number(each.dataset.sort))")

    heads = page.locator("#layers th button")
    heads.nth(0).click()
    assert column(1) == list(range(len(fidelity().layers)))
    heads.nth(2).click()
    assert column(3) == sorted((each.accumulated for each in fidelity().layers), reverse=True)
    heads.nth(2).click()
    assert column(3) == sorted(each.accumulated for each in fidelity().layers)
    assert page.locator("#layers th").nth(2).get_attribute("aria-sort") == "ascending"


def test_a_long_table_is_folded_until_asked_for(page: Any) -> None:
    rows = page.locator("#matrices tbody tr")
    count = rows.count()
    assert count > 20
    assert sum(row.is_visible() for row in rows.all()) == 20
    page.get_by_role("button", name=f"Show all {count}").click()
    assert all(row.is_visible() for row in rows.all())


def test_bars_are_as_long_as_their_errors(page: Any) -> None:
    widths = page.locator("#layers .bar.own rect").evaluate_all(
        "all => all.map(each => each.getBoundingClientRect().width)"
    )
    errors = sorted((each.own for each in fidelity().layers), reverse=True)
    ratios = [width / widths[0] for width in widths]
    assert ratios == pytest.approx([error / errors[0] for error in errors], abs=0.01)


def test_light_and_dark_are_readable(page: Any) -> None:
    """Text stands out from the paper by 7 to 1 or more, as WCAG 2 asks of small print (AAA)."""
    colours = page.evaluate(
        "['color', 'backgroundColor'].map(k => getComputedStyle(document.body)[k])"
    )
    lights = sorted(map(_luminance, colours))
    assert (lights[1] + 0.05) / (lights[0] + 0.05) >= 7


def _luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
