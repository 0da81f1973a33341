"""The report of a finished package: verdict, fidelity if asked for, and a page of both."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from masu.events import OnEvent
from masu.fidelity import is_measurable, make_report, measure_package, write_report
from masu.specs.errors import OutputError
from masu.specs.package import Package
from masu.specs.report import Report
from masu.verdict import Verdict

if TYPE_CHECKING:
    from masu.quantizers.fidelity import Reference


def report_on(
    folder: Path,
    name: str,
    reference: "Reference | Package",
    *,
    page: str | Path | None,
    verdict: Verdict | None = None,
    recipe: str | None = None,
    seconds: Mapping[str, float],
    on_event: OnEvent | None = None,
) -> Report:
    """Write report.json into a package that is about to get its name.

    Args:
        reference: the full-precision model.
        page: where to write the report as an HTML page; only then is fidelity measured, for it
            takes as long as reading the evaluation text with both models.
    """
    fidelity = None
    if page is not None:
        require_writable(page)
        package = Package.open(folder)
        if is_measurable(package.config):
            fidelity = measure_package(package, reference, on_event=on_event)
    report = make_report(name, fidelity=fidelity, verdict=verdict, recipe=recipe, seconds=seconds)
    write_report(folder, report)
    return report


def require_writable(page: str | Path) -> None:
    """Fail before the work is done, not after it."""
    folder = Path(page).absolute().parent
    if not folder.is_dir():
        raise OutputError(
            f"{page} cannot be written: there is no folder {folder}",
            hint="make the folder, or choose another place with --report",
        )
