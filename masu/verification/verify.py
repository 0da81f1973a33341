"""Says whether a package still computes what it should: by its source, or by its fingerprints."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from masu.events import Event, OnEvent
from masu.planning import Plan, plan
from masu.rebuild import recorded_settings
from masu.specs.errors import RequestError
from masu.specs.fingerprints import FINGERPRINTS
from masu.specs.package import Package
from masu.verdict import Verdict
from masu.verification.codes import stored_divergences
from masu.verification.judge import judge
from masu.verification.recorded import unchanged
from masu.verification.requantised import by_way_of_a_package
from masu.verification.stored_config import stored_differences

DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def verify(
    package: str | Path,
    against: str | Path | None = None,
    *,
    offline: bool = False,
    on_event: OnEvent | None = None,
) -> Verdict:
    """Compare the numbers of a package, block by block; the package is not changed.

    Args:
        against: its source, as `convert` takes it: the conversion is planned again as the manifest
            records it, its arrays are compared byte by byte, then as after a conversion, and
            config.json and tokenizer.json value by value.
            Without a source, the fingerprints in the package say what it computed.
        offline: use only what was downloaded before.

    Raises:
        PackageError: there is no sound package.
        RequestError: without a source, the package has no fingerprints.
        SourceError, RecipeError: the source cannot be converted as the manifest says.
    """
    folder = Path(package)
    if against is None:
        _tell(on_event, "each block against its fingerprint")
        return unchanged(folder)
    opened = Package.open(folder)
    planned = plan(against, folder, offline=offline, on_event=on_event, **_settings(opened))
    _tell(on_event, "each block against the source")
    return _with_stored(opened, planned, _against(opened, planned))


def _with_stored(package: Package, planned: Plan, verdict: Verdict) -> Verdict:
    """The verdict on the numbers, and no if config.json or tokenizer.json says something else.

    Without a manifest nothing says how the text was imported, so that it is only told.
    """
    differing = stored_differences(package, planned.conversion)
    if not differing:
        return verdict
    if package.manifest is None:
        return replace(verdict, remarks=(*verdict.remarks, *differing))
    return replace(verdict, passed=False, differing=differing)


def _against(package: Package, planned: Plan) -> Verdict:
    open_codes, found = _undetermined(planned), []
    for conversion in (planned.conversion, by_way_of_a_package(planned)):
        if conversion is None:
            continue
        diverging = next(stored_divergences(package, conversion, open_codes), None)
        if diverging is not None:
            found.append(diverging)
        elif open_codes:
            return _by_fingerprints(package, len(open_codes))
        else:
            exact = planned.conversion
            return judge(package.path, conversion, planned.checkpoint, exact)
    return Verdict(
        level="consistent",
        passed=False,
        error=found[0].error,
        bound=found[0].bound,
        rounding=0.0,
        tokens=0,
        diverging=found[0],
    )


def _undetermined(planned: Plan) -> frozenset[str]:
    """The matrices whose method, or format, was chosen by what the model made of some text."""
    quantisation = planned.quantisation
    if quantisation is None:
        return frozenset()
    if quantisation.recipe.promotion is None:
        return quantisation.pending
    return frozenset(name for name, each in quantisation.assignments.items() if each.format)


def _by_fingerprints(package: Package, calibrated: int) -> Verdict:
    """Calibrated codes depend on texts that were read once: the source cannot say what they are."""
    known = package.manifest and package.manifest.calibration
    text = known.describe() if known else "a text that is not recorded"
    said = (
        f"{calibrated} matrices have calibrated codes, which the source alone does not determine: "
        "these were compared with the fingerprints, all others with the source; they were "
        f"calibrated on {text}"
    )
    if not (package.path / FINGERPRINTS).exists():
        raise RequestError(
            f"{package.path}: {calibrated} matrices have calibrated codes, which only "
            f"{FINGERPRINTS} could vouch for, and there is none"
        )
    verdict = unchanged(package.path)
    return replace(verdict, reason=said)


def _settings(package: Package) -> dict[str, Any]:
    if package.manifest is not None:
        where = str(package.path / "manifest.json")
        return recorded_settings(package.manifest, where)
    return {"dtype": DTYPES[package.dtype], "engine": package.dialect.name}


def _tell(on_event: OnEvent | None, message: str) -> None:
    if on_event is not None:
        on_event(Event("verify", 0, 0, message))
