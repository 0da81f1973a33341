"""What a package lost against the full-precision model, and the report that says so."""

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from masu.converter.convert import ConversionPlan
from masu.events import Event, OnEvent
from masu.machine import cpu_name, usable_cores, versions
from masu.process import peak_bytes
from masu.specs.errors import NotAPackage, OutputError, RequestError
from masu.specs.model import LanguageModelConfig, ModelConfig
from masu.specs.package import Package
from masu.specs.report import (
    REPORT,
    Fidelity,
    Machine,
    OtherPackage,
    Report,
    VerdictRecord,
    manifest_hash,
    read_report,
)
from masu.specs.summary import array_bytes
from masu.verdict import PlanSource, Verdict

if TYPE_CHECKING:
    from masu.quantizers.fidelity import Reference
    from masu.quantizers.windows import NamedText

COMPUTING = ("jax", "numpy")
"""Libraries that figures depend on."""


def is_measurable(config: ModelConfig) -> bool:
    """Whether there are next tokens to predict."""
    return isinstance(config, LanguageModelConfig)


def measure_package(
    package: str | Path | Package,
    reference: "str | Path | Package | Reference",
    *,
    text: str | Path | None = None,
    dtype: str = "float32",
    backend: str | None = None,
    on_event: OnEvent | None = None,
) -> Fidelity:
    """Compare a package with the full-precision model on a text.

    Args:
        reference: the package that it was made from, or any planned stream as a `Reference`.
        text: a file in UTF-8; None takes the evaluation text that comes with masu.
        dtype: of the activations of both models.

    Raises:
        RequestError: the text cannot be read or is too short, or the two are not the same model.
        PackageError: one of the two does not load.
        TensorMismatch: one of the two computes no numbers.
    """
    from masu.quantizers.fidelity import Reference, measure

    def progress(done: int, total: int) -> None:
        if on_event is not None:
            on_event(Event("fidelity", done, total, "tokens read by both models"))

    if not isinstance(reference, Reference):
        reference = Reference.of_package(_opened(reference))
    return measure(
        _opened(package),
        reference,
        _named_text(text),
        dtype=dtype,
        backend=backend,
        on_progress=progress,
    )


def planned_reference(plan: ConversionPlan) -> "Reference":
    """The source of a conversion, with its own values: the plan before any recipe."""
    from masu.quantizers.fidelity import Reference

    arrays = (array for tensor in plan.stream for array in tensor.arrays.values())
    return Reference(PlanSource.of(plan, exact=True), plan.name, sum(map(array_bytes, arrays)))


def make_report(
    package: str,
    *,
    fidelity: Fidelity | None,
    verdict: Verdict | None = None,
    recipe: str | None = None,
    seconds: Mapping[str, float],
    others: Iterable[OtherPackage] = (),
) -> Report:
    """What is written beside the package that is to have this name, with the machine as it is."""
    return Report(
        format_version=1,
        masu_version=version("masu"),
        package=package,
        recipe=recipe,
        verdict=None if verdict is None else _recorded(verdict),
        fidelity=fidelity,
        others=tuple(others),
        seconds=dict(seconds),
        peak_memory=peak_bytes(),
        machine=Machine(cpu=cpu_name(), cores=usable_cores(), versions=versions(COMPUTING)),
    )


def write_report(folder: Path, report: Report) -> None:
    """Into a package, as a report about the manifest that lies there.

    Raises:
        OutputError: the file cannot be written.
    """
    bound = report.model_copy(update={"manifest": manifest_hash(folder)})
    _write(folder / REPORT, bound.to_bytes())


def write_page(path: str | Path, report: Report) -> None:
    """The report as one HTML file that needs no other; OutputError if it cannot be written."""
    from masu.reports.html import render

    _write(Path(path), render(report).encode("utf-8"))


def with_others(report: Report, packages: Iterable[str | Path]) -> Report:
    """The same report with other packages of the model to compare with.

    Raises:
        NotAPackage: a package was never measured.
        RequestError: on another text, so that nothing can be compared.
    """
    others = [_other(Path(package), report.fidelity) for package in packages]
    return report.model_copy(update={"others": tuple(others)})


def _other(package: Path, beside: Fidelity | None) -> OtherPackage:
    found = read_report(package)
    if found is None or found.fidelity is None:
        raise NotAPackage(f"{package} has no report of its fidelity")
    fidelity = found.fidelity
    if beside is None or fidelity.text != beside.text:
        raise RequestError(
            f"{package} was measured on another text ({fidelity.text.name}), "
            "so the figures cannot be compared"
        )
    return OtherPackage(
        name=found.package,
        bytes=fidelity.bytes,
        bits_per_weight=fidelity.bits_per_weight,
        mean_kl=fidelity.mean_kl,
        p99_kl=fidelity.p99_kl,
    )


def _opened(package: str | Path | Package) -> Package:
    return package if isinstance(package, Package) else Package.open(package)


def _named_text(path: str | Path | None) -> "NamedText":
    from masu.quantizers.text import EVALUATION, evaluation_text
    from masu.quantizers.windows import NamedText

    if path is None:
        return NamedText(EVALUATION, evaluation_text())
    path = Path(path)
    try:
        return NamedText(path.name, path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RequestError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RequestError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from error


def _recorded(verdict: Verdict) -> VerdictRecord:
    return VerdictRecord(
        level=verdict.level,
        passed=verdict.passed,
        error=verdict.error,
        bound=verdict.bound,
        rounding=verdict.rounding,
        tokens=verdict.tokens,
        told=verdict.told,
    )


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or error}") from error
