"""Everything that can be wrong with a package without running it, found in one go."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from masu.specs.check_integrity import integrity_findings
from masu.specs.check_text import text_findings, vector_findings
from masu.specs.container import Container
from masu.specs.errors import ContainerError, EngineError, MasuError, SchemaError, TensorError
from masu.specs.finding import Finding, Kind
from masu.specs.manifest import MANIFEST
from masu.specs.package import (
    CONFIG,
    WEIGHTS,
    Package,
    read_config,
    read_manifest,
    require_package,
)
from masu.specs.report import REPORT, read_report

__all__ = ["Finding", "check_package", "damage"]

T = TypeVar("T")

KINDS: dict[type[MasuError], Kind] = {
    SchemaError: "schema",
    ContainerError: "container",
    TensorError: "tensors",
    EngineError: "engine",
}


def check_package(path: Path | str) -> list[Finding]:
    """Every finding of every check that the state of the package allows; empty: nothing to say.

    Beyond what `Package.open` proves: hashes against manifest.json, and the text side (token
    ids, template, parser). A broken part stops only those checks that need it.

    Raises:
        NotAPackage: there is no package at `path`, or it cannot be read.
    """
    path = Path(path)
    require_package(path)
    findings: list[Finding] = []

    def attempt(where: str, part: Callable[[], T]) -> T | None:
        try:
            return part()
        except MasuError as error:
            lines = error.problems or (error.message,)
            findings.extend(Finding(KINDS[type(error)], where, line) for line in lines)
            return None

    config = attempt(CONFIG, lambda: read_config(path / CONFIG))
    container = attempt(WEIGHTS, lambda: Container.open(path / WEIGHTS))
    manifest = attempt(MANIFEST, lambda: read_manifest(path))
    attempt(REPORT, lambda: read_report(path))
    package = None
    if config is not None and container is not None:
        package = attempt(WEIGHTS, lambda: Package.bind(path, *config, container, manifest))
    if manifest is not None:
        findings += integrity_findings(path, manifest, container, package)
    elif not (path / MANIFEST).exists():
        findings.append(Finding("note", MANIFEST, "there is none, so no hash was checked"))
    if config is not None:
        findings += text_findings(path, config[0])
        if manifest is not None:
            findings += vector_findings(path, config[0], manifest)
    return findings


def damage(findings: Iterable[Finding]) -> list[str]:
    """The findings with which a package is neither signed nor passed on, a line each.

    Its bytes are not those written, or it is not of the format. What an engine refuses, or a
    template that is not to everybody's taste, is no damage.
    """
    kinds = ("schema", "container", "tensors", "integrity", "signature")
    return [f"{found.where}: {found.message}" for found in findings if found.kind in kinds]
