"""Makes docs/images/report.png: `python docs/report_picture.py PACKAGE [OTHER ...]`.

The packages have a report.json of the same text; the first one's page is what the picture shows.
Needs `pip install masu[browser]` and a Chromium.
"""

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from masu.fidelity import with_others, write_page
from masu.specs.report import read_report

PICTURE = Path(__file__).parent / "images" / "report.png"


def main(package: str, *others: str) -> None:
    report = read_report(Path(package))
    if report is None:
        sys.exit(f"{package} has no report.json")
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "report.html"
        write_page(page, with_others(report, others))
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        opened = browser.new_page(viewport={"width": 760, "height": 1500})
        opened.goto(page.as_uri())
        opened.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
