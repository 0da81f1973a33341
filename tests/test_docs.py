"""The documents say what the code does: Python blocks run, `--help` pages and names are current."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from masu.converter.families import family_names, load_family
from masu.specs import errors

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.name}:{number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)
    )
]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_blocks_run(block: str, tmp_path: Path) -> None:
    """In an empty folder beside `tests`, as if the reader stood in a clone."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    (tmp_path / "block.py").write_text(block)
    done = subprocess.run(
        [sys.executable, "-W", "error", "block.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_there_are_python_blocks() -> None:
    assert "```python\nimport masu\n" in (ROOT / "README.md").read_text()
    assert BLOCKS


def test_command_line_pages_are_current() -> None:
    command = [sys.executable, ROOT / "docs/cli_pages.py"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == (ROOT / "docs/cli.md").read_text(), "run docs/cli_pages.py > docs/cli.md"


def test_engines_page_is_current() -> None:
    command = [sys.executable, ROOT / "docs/engines_page.py"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == (ROOT / "docs/engines.md").read_text(), (
        "run docs/engines_page.py > docs/engines.md"
    )


def test_families_page_is_current() -> None:
    command = [sys.executable, ROOT / "docs/families_page.py"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == (ROOT / "docs/families.md").read_text(), (
        "run docs/families_page.py > docs/families.md"
    )


def test_every_family_has_a_parity_figure() -> None:
    """`tests/parity` bounds what is measured there; this keeps the list of figures whole."""
    figures = json.loads((ROOT / "docs/parity.json").read_text())
    assert figures.keys() == {name for name in family_names() if load_family(name).tiny}
    assert max(figures.values()) <= 3e-4


def test_every_error_is_documented() -> None:
    documented = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/errors.md").read_text(), re.M))
    defined = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert documented == defined - {"Iterable", "MasuError"}


def test_readme_names_every_command() -> None:
    from masu.cli.app import COMMANDS

    named = re.findall(r"^\| `masu ([a-z-]+)", (ROOT / "README.md").read_text(), re.M)
    assert sorted(named) == sorted(COMMANDS)


def test_readme_begins_with_two_one_line_commands() -> None:
    """`.ci/run` executes them word for word."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    first, second = (block.splitlines() for block in blocks[:2])
    assert len(first) == len(second) == 1
    assert "masu quickstart" in first[0]
    assert "pytest" in second[0]


def test_changelog_has_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert re.search(rf"^## {re.escape(version)}\b", (ROOT / "CHANGELOG.md").read_text(), re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        assert "://" in target or (page.parent / target).exists(), target
