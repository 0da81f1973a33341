"""The documentation as a whole: shell blocks run, anchors lead somewhere, no page is lost."""

import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
import yaml

from masu.specs import errors

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
SHELL_BLOCKS = [
    pytest.param(block, id=f"{page.name}:{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"^```sh\n(.*?)^```$", page.read_text(), re.M | re.S))
]
SESSIONS = {"index.md", "sharing.md", "benchmarks.md"}
"""The first is below; of the second, with the Hub, `test_sharing_page.py` runs the commands; those
of the third take minutes and a quiet machine."""

GENERATED = {
    "cli.md": "cli_pages.py",
    "engines.md": "engines_page.py",
    "families.md": "families_page.py",
    "format-fields.md": "format_page.py",
}


@pytest.mark.slow
@pytest.mark.parametrize("block", SHELL_BLOCKS)
def test_shell_blocks_run(block: str, tmp_path: Path) -> None:
    """In an empty folder beside `tests`, as if the reader stood in a clone; ```console does not."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=tmp_path,
        env={**os.environ, "PATH": programs, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_fenced_block_is_executed() -> None:
    """`python` and `sh` are, in an empty folder; what a page shows as a session, by other tests."""
    for page in PAGES:
        if page.name not in GENERATED:
            fences = re.findall(r"^```(.*)\n[^`]*^```$", page.read_text(), re.M)
            known = {"python", "sh", *({"console"} if page.name in SESSIONS else ())}
            assert set(fences) <= known, page.name
            assert page.read_text().count("```") == 2 * len(fences), page.name
    assert SHELL_BLOCKS


def test_the_first_session_is_the_command_of_the_readme() -> None:
    """That one `.ci/run` executes word for word."""
    [session] = re.findall(r"^```console\n\$ (.*)\n```$", (DOCS / "index.md").read_text(), re.M)
    assert f"```sh\n{session}\n```" in (ROOT / "README.md").read_text()


def anchors(page: Path) -> set[str]:
    """Ids of a page's headings, as Python-Markdown makes them."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", prose, re.M):
        plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
        assert slug not in found, f"{page.name}: two headings are #{slug}"
        found.add(slug)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_lead_somewhere(page: Path) -> None:
    known = anchors(page)
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text()):
        if "://" not in target:
            there = anchors((page.parent / target).resolve()) if target else known
            assert anchor in there, f"{target}#{anchor}"


def test_every_page_is_in_the_navigation() -> None:
    def pages(entries: object) -> list[str]:
        if isinstance(entries, str):
            return [entries]
        values = entries.values() if isinstance(entries, dict) else entries
        return [page for value in values for page in pages(value)]  # pyright: ignore

    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert sorted(pages(site["nav"])) == [page.name for page in PAGES]


def test_format_fields_page_is_current() -> None:
    command = [sys.executable, DOCS / "format_page.py"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == (DOCS / "format-fields.md").read_text(), (
        "run docs/format_page.py > docs/format-fields.md"
    )


def test_every_error_has_a_remedy() -> None:
    page = (DOCS / "errors.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", page, re.M)
    defined = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert {name for name, _, _ in rows} == defined - {"Iterable", "MasuError"}
    assert min(len(remedy) for _, _, remedy in rows) > len("report it")
