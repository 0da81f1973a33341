"""Rules about the source tree: who imports whom, how long things are, what they are called."""

import ast
import tomllib
from fnmatch import fnmatch
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("converter", "quantizers", "runtime", "specs")
ALLOWED = {
    "specs": {"specs"},
    "converter": {"converter", "specs"},
    "runtime": {"runtime", "specs"},
    "quantizers": {"quantizers", "runtime", "specs"},
    "masu": {"masu", *FOLDERS},
}


def python_files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def module_name(path: Path) -> str:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    return name if name.split(".")[0] == "masu" else f"masu.{name}"


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


SHIPPED = python_files("masu", *FOLDERS)
SOURCES = [*SHIPPED, *python_files("tests", "examples", "benchmarks", "docs")]
INCLUDE = "recursive-include"
MODULES = {module_name(path): path for path in SHIPPED}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imported_names(node: ast.AST) -> set[str]:
    """What the imports below a node name, as `package.module.name`; function bodies included."""
    found: set[str] = set()
    for child in ast.walk(node):
        if isinstance(child, ast.Import):
            found |= {alias.name for alias in child.names}
        elif isinstance(child, ast.ImportFrom):
            found |= {f"{child.module}.{alias.name}" for alias in child.names}
    return found


def libraries(node: ast.AST) -> set[str]:
    return {name.split(".")[0] for name in imported_names(node)}


def project_imports(path: Path) -> set[str]:
    """The modules of this project that a file imports, `if TYPE_CHECKING:` blocks included."""
    names = imported_names(tree(path))
    modules = {name if name in MODULES else name.rpartition(".")[0] for name in names}
    return modules & MODULES.keys()


def run_on_import(path: Path) -> ast.Module:
    """The statements of a file that are not put off by a function or `if TYPE_CHECKING:`."""
    later = (ast.FunctionDef, ast.ClassDef, ast.If)
    body = [node for node in tree(path).body if not isinstance(node, later)]
    return ast.Module(body=body, type_ignores=[])


def folder(module: str) -> str:
    part = module.split(".")[1] if "." in module else ""
    return part if part in FOLDERS else "masu"


@pytest.mark.parametrize("module", MODULES)
def test_folders_import_only_downwards(module: str) -> None:
    assert {folder(name) for name in project_imports(MODULES[module])} <= ALLOWED[folder(module)]


def test_no_import_cycles() -> None:
    try:
        TopologicalSorter({m: project_imports(p) for m, p in MODULES.items()}).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_no_relative_imports(path: Path) -> None:
    assert not any(n.level for n in ast.walk(tree(path)) if isinstance(n, ast.ImportFrom))


@pytest.mark.parametrize("path", SHIPPED, ids=relative)
def test_jax_is_imported_by_its_backends_only(path: Path) -> None:
    uses_jax = bool({"jax", "jaxlib"} & libraries(tree(path)))
    backends = ROOT / "runtime/backends"
    may = path.parent == backends / "native" or (
        path.stem.startswith("jax") and path.parent in (backends, ROOT / "masu/cli")
    )
    assert may or not uses_jax


@pytest.mark.parametrize("path", SHIPPED, ids=relative)
def test_mlx_is_imported_by_its_backend_only(path: Path) -> None:
    """It is an extra: everything else must import without it."""
    assert path.parent == ROOT / "runtime/backends/mlx" or "mlx" not in libraries(tree(path))


@pytest.mark.parametrize("path", python_files("masu"), ids=relative)
def test_the_face_puts_off_heavy_imports(path: Path) -> None:
    """So that `masu --help` and `import masu` start at once."""
    heavy = {"torch", "transformers", "tokenizers", "huggingface_hub", "gguf", "rich"}
    assert not heavy & libraries(run_on_import(path))


@pytest.mark.parametrize("path", python_files("specs"), ids=relative)
def test_specs_know_no_framework(path: Path) -> None:
    assert not {"torch", "transformers", "huggingface_hub", "gguf"} & libraries(tree(path))


def setuptools_settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "setuptools"
    ]


def test_every_package_is_in_the_wheel() -> None:
    listed = setuptools_settings()["packages"]
    with_code = {module_name(path.parent / "__init__.py") for path in SHIPPED}
    assert sorted(listed) == sorted(with_code)
    assert all((path.parent / "__init__.py").exists() for path in SHIPPED)


def test_every_data_file_is_in_the_wheel() -> None:
    patterns = setuptools_settings()["package-data"]["*"]
    files = [path for name in ("masu", *FOLDERS) for path in (ROOT / name).rglob("*.*")]
    code = (".py", ".pyc", ".cpp", ".h", ".so")
    data = {path.name for path in files if path.suffix not in code and path.is_file()}
    assert not {name for name in data if not any(fnmatch(name, pattern) for pattern in patterns)}


@pytest.mark.parametrize("folder", ["runtime/backends/native/cpp", "specs/formats/native/cpp"])
def test_every_compiled_source_is_built_and_shipped(folder: str) -> None:
    """In a source distribution the build finds only what MANIFEST.in names."""
    sources = ROOT / folder
    built = (ROOT / "setup.py").read_text(encoding="utf-8")
    assert folder in built
    assert not {path.name for path in sources.glob("*.cpp") if f'"{path.name}"' not in built}
    lines = (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()
    [shipped] = [line.split()[2:] for line in lines if line.split()[:2] == [INCLUDE, folder]]
    assert {f"*{path.suffix}" for path in sources.iterdir()} <= set(shipped)


def test_static_tools_see_every_module() -> None:
    links = {link.name: link.resolve() for link in (ROOT / ".pkg/masu").iterdir()}
    face = [
        p for p in (ROOT / "masu").iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()
    ]
    assert links == {path.name: path for path in [*face, *(ROOT / name for name in FOLDERS)]}


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_files_begin_with_a_sentence(path: Path) -> None:
    """An `__init__.py` that holds nothing may also say nothing."""
    if path.name == "__init__.py" and not tree(path).body:
        return
    first_paragraph = (ast.get_docstring(tree(path)) or "").split("\n\n")[0]
    assert first_paragraph.endswith(".")


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_names_say_something(path: Path) -> None:
    empty = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "tools"}
    assert not empty & set(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("path", SHIPPED, ids=relative)
def test_files_and_functions_stay_short(path: Path) -> None:
    lengths = {
        f"{node.name}:{node.lineno}": (node.end_lineno or 0) - node.lineno + 1
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert not {name: length for name, length in lengths.items() if length > 40}
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


def test_test_files_have_unique_names() -> None:
    """Two `test_x.py` in different folders would be one module to some tools."""
    names = [path.name for path in python_files("tests")]
    assert sorted(names) == sorted(set(names))
