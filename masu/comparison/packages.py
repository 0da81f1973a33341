"""Two packages compared: config, generation, template, tokenizer, tensors, manifest."""

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from masu.comparison.documents import changes
from masu.comparison.entries import Difference, Entry, Section
from masu.comparison.tensors import tensor_entries
from masu.comparison.tokenizers import tokenizer_changes
from masu.specs.errors import PackageError
from masu.specs.jsonfile import read_json_file
from masu.specs.manifest import Manifest
from masu.specs.package import TOKENIZER, Package

TEMPLATE = "prompt_template"
SHOWN_LINES = 6
FACTS = ("masu_version", "engine", "dtype", "source", "recipe", "calibration", "carried")
"""What a manifest says that the package does not say itself; hashes and ledger follow from it."""


def diff(a: Path | str, b: Path | str) -> Difference:
    """Everything in which package `b` differs from package `a`, whatever release each is for.

    Tensors are compared in chunks: by bytes first, and where those differ by decoded values, so
    memory does not grow with the packages.

    Raises:
        PackageError, EngineError: one of them is no sound package.
    """
    one, other = Package.open(a), Package.open(b)
    return Difference(tuple(_entries(one, other)))


def _entries(a: Package, b: Package) -> Iterator[Entry]:
    yield from _config_entries(a, b)
    yield from _tokenizer_entries(a.path / TOKENIZER, b.path / TOKENIZER)
    yield from tensor_entries(a, b)
    yield from _manifest_entries(a.manifest, b.manifest)
    if a.dialect.name != b.dialect.name:
        yield Entry("files", "dialect", f"{a.dialect.name} in A, {b.dialect.name} in B")


def _config_entries(a: Package, b: Package) -> Iterator[Entry]:
    """Canonical fields, so that a field that two releases call differently is none."""
    values = [package.config.model_dump(mode="json") for package in (a, b)]
    templates = [value.get("token_codec_config", {}).pop(TEMPLATE, None) for value in values]
    for path, message in changes(values[0], values[1]):
        section: Section = "generation" if path.startswith("generation_config") else "config"
        yield Entry(section, path, message)
    if templates[0] != templates[1]:
        yield Entry("template", f"token_codec_config.{TEMPLATE}", _lines(*templates))


def _lines(a: str | None, b: str | None) -> str:
    """The first lines that differ, and how many do."""
    if a is None or b is None:
        return f"only in {'B' if a is None else 'A'}"
    found = difflib.ndiff(a.splitlines(keepends=True), b.splitlines(keepends=True))
    lines = [line for line in found if line.startswith(("- ", "+ "))]
    counts = [sum(line.startswith(sign) for line in lines) for sign in "-+"]
    shown = "\n".join(repr(line)[1:-1] for line in lines[:SHOWN_LINES])
    more = f"\n... and {len(lines) - SHOWN_LINES} more" if len(lines) > SHOWN_LINES else ""
    return f"{counts[0]} lines of A, {counts[1]} of B\n{shown}{more}"


def _tokenizer_entries(a: Path, b: Path) -> Iterator[Entry]:
    if not a.exists() and not b.exists():
        return
    if a.exists() != b.exists():
        yield Entry("files", TOKENIZER, f"only in {'A' if a.exists() else 'B'}")
        return
    if a.read_bytes() == b.read_bytes():
        return
    documents: list[Any] = [read_json_file(path, error=PackageError) for path in (a, b)]
    found = list(tokenizer_changes(*documents))
    for path, message in found:
        yield Entry("tokenizer", path, message)
    if not found:
        yield Entry("tokenizer", TOKENIZER, "the same content, written differently")


def _manifest_entries(a: Manifest | None, b: Manifest | None) -> Iterator[Entry]:
    if a is None or b is None:
        if a is not b:
            yield Entry("manifest", "manifest.json", f"only in {'B' if a is None else 'A'}")
        return
    facts = [manifest.model_dump(mode="json", include=set(FACTS)) for manifest in (a, b)]
    for path, message in changes(facts[0], facts[1]):
        yield Entry("manifest", path, message)
