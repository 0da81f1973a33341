"""Makes a package again from what its manifest records, and says whether it is the same."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from masu.events import OnEvent
from masu.pipeline import Conversion, convert
from masu.specs.errors import RequestError, SchemaError, SourceError
from masu.specs.jsonfile import MAX_BYTES
from masu.specs.manifest import MANIFEST, Manifest
from masu.specs.models import ModelSpec
from masu.specs.recipe import KEEP, RECIPE, Recipe
from masu.specs.regular_file import read_regular
from masu.specs.schema_errors import validate_json

DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


@dataclass(frozen=True)
class Rebuilt:
    """A package made again.

    Attributes:
        differences: each entry of the manifest that is another now; none if all bytes are equal.
    """

    conversion: Conversion
    differences: tuple[str, ...]

    @property
    def identical(self) -> bool:
        return not self.differences


def rebuild(
    manifest: str | Path,
    source: str | Path | None = None,
    out: str | Path | None = None,
    *,
    overwrite: bool = False,
    resume: bool = False,
    verify: bool = True,
    offline: bool = False,
    calibration: str | Path | None = None,
    report: str | Path | None = None,
    on_event: OnEvent | None = None,
) -> Rebuilt:
    """Convert once more with the settings of a manifest, and compare every hash.

    Args:
        manifest: a manifest.json, or the package in which it lies.
        source: of a package that was made from local files: where they are now.

    Raises:
        SchemaError, RequestError: no such manifest; another calibration text, or none.
        SourceError: the manifest does not say where its source is, or as `convert`.
        OutputError, EngineError, VerdictError: as `convert`.
    """
    recorded = read_recorded(Path(manifest))
    conversion = convert(
        _source(recorded, source),
        out,
        **recorded_settings(recorded, str(manifest)),
        overwrite=overwrite,
        resume=resume,
        verify=verify,
        offline=offline,
        calibration=recorded_calibration(recorded, calibration),
        report=report,
        on_event=on_event,
    )
    made = read_recorded(conversion.path)
    differences = _differences(recorded.model_dump(), made.model_dump(), "")
    return Rebuilt(conversion, tuple(differences))


def read_recorded(path: Path) -> Manifest:
    """The manifest at `path`, or in the package there; SchemaError if there is none."""
    file = path / MANIFEST if path.is_dir() else path
    return Manifest.from_bytes(read_regular(file, MAX_BYTES, error=SchemaError), str(file))


def recorded_settings(recorded: Manifest, where: str) -> dict[str, Any]:
    """The arguments of `plan` and `convert` that a manifest gives; `where` names it in messages."""
    return {
        "spec": _spec(recorded, where),
        "dtype": DTYPES[recorded.dtype],
        "engine": recorded.engine,
        "family": recorded.family,
        "recipe": _recipe(recorded, where),
    }


def recorded_calibration(recorded: Manifest, given: str | Path | None) -> str | Path | None:
    """The calibration text to use again, for `convert`: `given`, if it is what was recorded.

    Raises:
        RequestError: it is another text, or a file that has to be given was not.
    """
    from masu.quantizers.calibration_text import GENERATED, text_hash

    known = recorded.calibration
    if known is None:
        return given
    if known.kind == "generated" and given in (None, GENERATED):
        return GENERATED
    if given is None and known.kind == "file":
        raise RequestError(
            f"the package was calibrated on {known.describe()}, which the manifest does not hold",
            hint=f"name that file: --calibration {known.name}",
        )
    if given == GENERATED or known.kind == "generated" or text_hash(given) != known.sha256:
        what = "masu's own text of this version" if given is None else given
        raise RequestError(
            f"the package was calibrated on {known.describe()}, and {what} is another text"
        )
    return given


def _source(recorded: Manifest, named: str | Path | None) -> str | Path:
    if named is not None:
        return named
    source = recorded.source
    if source.kind == "hub":
        return f"{source.name}@{source.revision}"
    if source.kind == "pypi":
        return f"pypi:{source.name}=={source.revision}"
    raise SourceError(
        f"the manifest is of a local {source.kind}, and says not where that is",
        hint="name it as well: masu convert SOURCE --from-manifest F",
    )


def _spec(recorded: Manifest, where: str) -> ModelSpec:
    try:
        return ModelSpec.model_validate({**recorded.overrides, "repo": recorded.source.name or ""})
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise SchemaError(f"{where}: overrides:", problems=problems) from None


def _recipe(recorded: Manifest, where: str) -> Recipe | str | None:
    """The recipe that was applied, as it was then, whatever one of its name says now."""
    if recorded.recipe is None:
        return None
    if recorded.recipe.get("recipe") == KEEP:
        return KEEP
    text = json.dumps(recorded.recipe.get("recipe")).encode()
    return validate_json(RECIPE, text, f"{where}: recipe")


def _differences(recorded: Any, made: Any, place: str) -> Iterator[str]:
    """Where two JSON values differ, down to the single entry."""
    if isinstance(recorded, dict) and isinstance(made, dict):
        for key in sorted(recorded.keys() | made.keys()):
            inner = f"{place}: {key}" if place else key
            if key not in made:
                yield f"{inner}: only in the manifest"
            elif key not in recorded:
                yield f"{inner}: only in the rebuilt package"
            else:
                yield from _differences(recorded[key], made[key], inner)
    elif recorded != made:
        yield f"{place}: the manifest has {_shown(recorded)}, rebuilt {_shown(made)}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
