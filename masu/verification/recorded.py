"""A package against the fingerprints in its own folder: what it computed when it was converted."""

from pathlib import Path

from masu.specs.errors import OutputError, PackageError, RequestError
from masu.specs.fingerprints import FINGERPRINTS, Fingerprints
from masu.specs.jsonfile import MAX_BYTES
from masu.specs.package import Package
from masu.specs.regular_file import read_regular
from masu.verdict import Verdict
from masu.verification.fingerprints import divergences, fingerprints_of
from masu.verification.prints import TOLERANCE


def write_fingerprints(folder: Path) -> None:
    """Record what the package at `folder` computes now.

    A package that the runtime cannot run yet gets none.

    Raises:
        OutputError: the file cannot be written.
    """
    try:
        found = fingerprints_of(Package.open(folder))
    except RequestError:
        return
    try:
        (folder / FINGERPRINTS).write_bytes(found.to_bytes())
    except OSError as cause:
        raise OutputError(f"{folder / FINGERPRINTS} cannot be written: {cause.strerror}") from cause


def unchanged(folder: Path) -> Verdict:
    """Whether the package still computes what was recorded.

    Raises:
        PackageError: there is no sound package.
        RequestError: it has no fingerprints, or blocks that the runtime does not run.
        SchemaError: fingerprints.json is not of the format.
    """
    package, path = Package.open(folder), folder / FINGERPRINTS
    if not path.exists():
        raise RequestError(
            f"{folder} has no {FINGERPRINTS}, so nothing says what it computed when it was made",
            hint="compare it with its source: masu verify PACKAGE --against SOURCE",
        )
    recorded = Fingerprints.from_bytes(read_regular(path, MAX_BYTES, error=PackageError), str(path))
    found = fingerprints_of(package)
    diverging = next(iter(divergences(found, recorded)), None)
    return Verdict(
        level="unchanged",
        passed=diverging is None,
        error=0.0 if diverging is None else diverging.error,
        bound=TOLERANCE,
        rounding=0.0,
        tokens=recorded.tokens,
        diverging=diverging,
    )
