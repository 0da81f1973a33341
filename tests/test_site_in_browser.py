"""A headless Chromium walks every page of the built documentation: no link is broken."""

import functools
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urldefrag, urljoin

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page  # pyright: ignore[reportMissingImports]

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parent.parent
IDS = "[...document.querySelectorAll('[id]')].map(element => element.id)"
LINKS = "[...document.querySelectorAll('a[href]')].map(link => link.href)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a warning is a failure."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def page() -> Iterator["Page"]:
    playwright = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as run:
        browser = run.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser.new_page()
        browser.close()


def test_no_link_is_broken(page: "Page", address: str) -> None:
    """From the first page on; and no page asks another server for anything, or has errors."""
    requested: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    seen, broken = walk(page, address)
    assert broken == []
    assert len(seen) >= len(list((ROOT / "docs").glob("*.md")))
    assert [url for url in requested if not url.startswith((address, "data:"))] == []
    assert complaints == []


def test_broken_links_are_found(page: "Page", address: str, site: Path) -> None:
    """The walk itself, on a page with a link to nowhere and one to no heading."""
    (site / "planted").mkdir()
    (site / "planted/index.html").write_text('<a href="nowhere/">x</a> <a href="../ci/#no">y</a>')
    broken = walk(page, f"{address}planted/")[1]
    assert sorted(broken) == [f"{address}ci/#no", f"{address}planted/nowhere/"]
    shutil.rmtree(site / "planted")


def walk(page: "Page", start: str) -> tuple[set[str], list[str]]:
    """Every page that links of this server lead to, and the links that lead nowhere.

    Pages end in `/`; files that a browser would download are left to the strict build.
    """
    root = urljoin(start, "/")
    waiting, ids, broken, wanted = [start], dict[str, set[str]](), list[str](), set[str]()
    while waiting:
        here = waiting.pop()
        response = page.goto(here, wait_until="load")
        ids[here] = set(page.evaluate(IDS))
        if response is None or not response.ok:
            broken.append(here)
            continue
        links = [link for link in page.evaluate(LINKS) if link.startswith(root)]
        wanted.update(link for link in links if urldefrag(link).fragment)
        pages = sorted({urldefrag(link).url for link in links})
        waiting += [p for p in pages if p.endswith("/") and p not in ids and p not in waiting]
    places = ((link, urldefrag(link)) for link in sorted(wanted))
    broken += [link for link, (place, id_) in places if id_ not in ids.get(place, {id_})]
    return set(ids), broken
