"""The public names of `masu`: all there, imported late, and the same for type checkers."""

import ast
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import masu

FACE = Path(__file__).parent.parent / "masu"


def test_importing_masu_imports_nothing_else() -> None:
    script = "import masu, sys; print([n for n in sys.modules if n.startswith('masu.')])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", masu.__all__)
def test_public_name_resolves(name: str) -> None:
    assert getattr(masu, name) is not None
    assert name in dir(masu)


def test_type_checkers_see_the_same_names_from_the_same_places() -> None:
    tree = ast.parse((FACE / "__init__.py").read_text())
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    for node in checked.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                assert getattr(import_module(str(node.module)), alias.name) is getattr(
                    masu, alias.name
                )
    imported = {
        alias.name for n in checked.body if isinstance(n, ast.ImportFrom) for alias in n.names
    }
    assert imported | {"__version__"} == set(masu.__all__)


def test_no_public_name_is_hidden_by_a_module() -> None:
    """Importing `masu.check` would put the module in the place of the function `check`."""
    modules = {path.stem for path in FACE.iterdir()}
    assert not modules & set(masu.__all__)


def test_version_is_that_of_the_distribution() -> None:
    assert masu.__version__ == version("masu")


def test_unknown_names_are_attribute_errors() -> None:
    assert not hasattr(masu, "quantise_everything")
