"""What a package holds, or what a source would become, without loading or converting it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from masu.specs.errors import NotAPackage
from masu.specs.jsonfile import read_json_file
from masu.specs.manifest import Ledger
from masu.specs.package import CONFIG, Package
from masu.specs.report import Report, read_report
from masu.specs.summary import Summary, summarize


@dataclass(frozen=True)
class Overview:
    """Attributes:
    ledger: what became of every item of the source; None for a package without a manifest.
    report: what was measured of the package; None where nothing was.
    """

    kind: Literal["package", "source"]
    summary: Summary
    ledger: Ledger | None
    report: Report | None = None


def overview(package_or_source: str | Path, *, context: int = 4096) -> Overview:
    """Sizes, formats and memory of a package, or of the bfloat16 package a source would give.

    Args:
        context: length of the conversation whose caches the memory includes, in tokens.

    Raises:
        PackageError: a broken package.
        SourceError: a source that cannot be converted.
    """
    path = Path(package_or_source)
    try:
        package = Package.open(path)
    except NotAPackage:
        if _claims_to_be_a_package(path):
            raise
        return _of_source(package_or_source, context)
    parts = package.config, package.formats, package.dtype, package.planes
    ledger = None if package.manifest is None else package.manifest.ledger
    return Overview("package", summarize(*parts, context=context), ledger, read_report(path))


def _claims_to_be_a_package(path: Path) -> bool:
    """Checkpoints have a `model_type`, packages a `type`."""
    config = path / CONFIG
    return config.is_file() and "type" in read_json_file(config)


def _of_source(source: str | Path, context: int) -> Overview:
    from masu.pipeline import plan

    planned = plan(source)
    conversion = planned.conversion
    formats = {t.name: t.format for t in conversion.stream if t.format is not None}
    planes = planned.engine.dialect.planes
    summary = summarize(conversion.config, formats, conversion.dtype, planes, context=context)
    return Overview("source", summary, conversion.ledger)
