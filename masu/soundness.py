"""Is a package sound? The static check, then one engine's rules, then the runtime's strict load."""

from collections.abc import Iterator
from pathlib import Path

from masu.signing import signature_findings
from masu.specs.check import Finding, check_package
from masu.specs.engine import Candidate, EngineProfile
from masu.specs.engines import find_engine
from masu.specs.errors import EngineError, PackageError, RequestError
from masu.specs.package import WEIGHTS, Package

OTHER_RELEASE = "other-release"
"""Stands where findings have the id of an engine's rule."""


def check(
    path: Path | str, *, engine: str | None = None, key: Path | str | None = None
) -> list[Finding]:
    """Everything that is wrong with the package at `path`, and notes on what was not checked.

    Rules and load follow only where config and tensors hold together; the load reads every tensor.

    Args:
        engine: also judge the package by the rules of this release (`uzu-0.6`): what it refuses
            is a problem, what it computes otherwise a finding of kind `differs`, which is none.
        key: also demand that the package is signed with this public key, a PEM file.

    Raises:
        NotAPackage: there is no package at `path`.
        EngineError: no such engine.
        RequestError: the key cannot be read, or `cryptography` is not installed.
    """
    profile = None if engine is None else find_engine(engine)
    findings = check_package(Path(path))
    if key is not None:
        findings += signature_findings(Path(path), key)
    try:
        package = Package.open(Path(path))
    except (PackageError, EngineError):  # the findings say why
        return findings
    if profile is not None:
        findings += engine_findings(package, profile)
    return [*findings, *load_findings(package)]


def engine_findings(package: Package, engine: EngineProfile) -> Iterator[Finding]:
    """Its dialect first: a package that is spelled for another release is not even read."""
    if package.dialect.name != engine.dialect.name:
        message = (
            f"the package is written for {package.dialect.name}, not for this release: load it"
            f" there, or write it for this one by `masu migrate --engine {engine.name}`"
        )
        yield Finding("engine", engine.name, message, OTHER_RELEASE)
    candidate = Candidate(package.config, package.formats, package.dtype, _files(package.path))
    for found in engine.judge(candidate):
        kind = "engine" if found.rule.effect == "refused" else "differs"
        yield Finding(kind, engine.name, str(found), found.rule.id)


def _files(folder: Path) -> frozenset[str]:
    """What lies in the folder and one level below, as rules name it."""
    found = (*folder.glob("*"), *folder.glob("*/*"))
    return frozenset(path.relative_to(folder).as_posix() for path in found)


def load_findings(package: Package) -> Iterator[Finding]:
    """The runtime asks for tensors by its own account, so this checks the table as well."""
    from masu.runtime.network import load_network

    try:
        load_network(package)
    except PackageError as error:
        for line in error.problems or (error.message,):
            yield Finding("tensors", WEIGHTS, f"strict load: {line}")
    except RequestError as error:
        reasons = "; ".join((error.message, *error.problems))
        yield Finding("note", WEIGHTS, f"not loaded: {reasons}")
