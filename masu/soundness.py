"""Is a package sound? The static check, then one engine's rules, then the runtime's strict load."""

from collections.abc import Iterator
from pathlib import Path

from masu.specs.check import Finding, check_package
from masu.specs.engine import EngineProfile
from masu.specs.engines import find_engine
from masu.specs.errors import EngineError, PackageError, RequestError
from masu.specs.package import WEIGHTS, Package


def check(path: Path | str, *, engine: str | None = None) -> list[Finding]:
    """Everything that is wrong with the package at `path`, and notes on what was not checked.

    Rules and load follow only where config and tensors hold together; the load reads every tensor.

    Args:
        engine: also judge the package by the rules of this release (`uzu-0.6`).

    Raises:
        NotAPackage: there is no package at `path`.
        EngineError: no such engine.
    """
    profile = None if engine is None else find_engine(engine)
    findings = check_package(Path(path))
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
        message = f"the package is written for {package.dialect.name}, not for this release"
        yield Finding("engine", engine.name, message)
    for refusal in engine.refusals(package.config, package.formats, package.dtype):
        yield Finding("engine", engine.name, refusal)


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
