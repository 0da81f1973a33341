"""Package -> package in other weight formats: what `masu quantize` does."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

from masu.calibrating import calibrated, scratch_in
from masu.events import Event, OnEvent
from masu.fidelity import write_page
from masu.quantizers.assignment import Assignment
from masu.quantizers.plan import Quantisation, plan_quantisation
from masu.reporting import report_on, require_writable
from masu.specs.container_writer import WrittenHashes, write_container
from masu.specs.engine import EngineProfile
from masu.specs.engines import ENGINES
from masu.specs.errors import RecipeError
from masu.specs.manifest import MANIFEST, Manifest
from masu.specs.model import SpeculatorModelConfig
from masu.specs.output import refuse_occupied, require_space, whole_folder
from masu.specs.package import CONFIG, TOKENIZER, WEIGHTS, Package
from masu.specs.package_stream import stream_of
from masu.specs.package_writer import PackageContents
from masu.specs.recipe import KEEP, Recipe, load_recipe
from masu.specs.report import Report
from masu.verification.recorded import write_fingerprints

OnBytes: TypeAlias = Callable[[int], None]


@dataclass(frozen=True)
class Quantised:
    """A finished package.

    Attributes:
        bytes: size of model.safetensors; `source_bytes` that of the package before.
        parameters: numbers in all matrices and vectors.
        assignments: what became of every matrix that a rule speaks of, by name.
        refusals: why the engine that the package is for will not load it.
    """

    path: Path
    recipe: str
    bytes: int
    source_bytes: int
    parameters: int
    assignments: Mapping[str, Assignment]
    refusals: tuple[str, ...]

    @property
    def bits_per_weight(self) -> float:
        """Bytes on disk over parameters, in bits."""
        return 8 * self.bytes / self.parameters


def quantize(
    package: str | Path,
    out: str | Path,
    recipe: str | Path | Recipe,
    *,
    calibration: str | Path | None = None,
    report: str | Path | None = None,
    overwrite: bool = False,
    on_event: OnEvent | None = None,
) -> Quantised:
    """Write a package with its matrices in the formats that a recipe says.

    Memory is bounded by the largest matrix, whatever the size of the model, unless the recipe
    names a calibrated method: then also by one layer, its moments, and the streams of the text.

    Args:
        calibration: a text file for calibrated methods, by default masu's own text; `generated` is
            text that the model itself makes up.
        report: an HTML page to write, for which fidelity is measured against `package`.

    Raises:
        PackageError: there is no sound package.
        RecipeError: no such recipe, or it does not fit the model; names every problem.
        OutputError: the target is taken or cannot be written.
    """
    target, chosen = Path(out), checked_recipe(recipe)
    if report is not None:
        require_writable(report)
    refuse_occupied(target, overwrite=overwrite)
    source = Package.open(package)
    plan = _plan(source, chosen)
    require_space(target, _contents(source, plan).layout.size)
    with whole_folder(target, overwrite=overwrite) as folder:
        plan, written = _filled(folder, source, plan, calibration, (target.name, report), on_event)
    if report is not None:
        write_page(report, written)
    return _quantised(source, target, plan)


def _filled(
    folder: Path,
    source: Package,
    plan: Quantisation,
    text: str | Path | None,
    report: tuple[str, str | Path | None],
    on_event: OnEvent | None,
) -> tuple[Quantisation, Report]:
    """All files of the new package; `report`: the name that it will have, and the page."""
    began = perf_counter()
    with scratch_in(folder) as scratch:
        plan = _calibrated(source, plan, scratch, text, on_event)
        contents = _contents(source, plan)
        advance = _progress(on_event, contents.layout.size)
        _write(source, plan, contents, folder, advance)
    write_fingerprints(folder)
    name, page = report
    seconds = {"quantise": perf_counter() - began}
    written = report_on(
        folder, name, source, page=page, recipe=plan.recipe.name, seconds=seconds, on_event=on_event
    )
    return plan, written


def _quantised(source: Package, target: Path, plan: Quantisation) -> Quantised:
    formats = {t.name: t.format for t in plan.stream if t.format is not None}
    return Quantised(
        path=target,
        recipe=plan.recipe.name,
        bytes=_contents(source, plan).layout.size,
        source_bytes=source.container.path.stat().st_size,
        parameters=plan.parameters,
        assignments=plan.assignments,
        refusals=tuple(_engine(source).refusals(plan.config, formats, source.dtype)),
    )


def _calibrated(
    source: Package,
    plan: Quantisation,
    scratch: Path,
    text: str | Path | None,
    on_event: OnEvent | None,
) -> Quantisation:
    tokenizer, dtype, planes = _tokenizer(source), source.dtype, source.planes
    return calibrated(plan, tokenizer, dtype, planes, scratch, text=text, on_event=on_event)


def checked_recipe(recipe: str | Path | Recipe) -> Recipe:
    """The recipe; `keep` is none for a package, which keeps its codes by not being quantised."""
    if recipe == KEEP:
        raise RecipeError(
            f"{KEEP} is for quantised sources: masu convert SOURCE --recipe {KEEP}",
            hint="a package keeps its formats as long as nobody quantises it",
        )
    return load_recipe(recipe)


def _plan(source: Package, recipe: Recipe) -> Quantisation:
    config = source.config
    if isinstance(config, SpeculatorModelConfig):
        raise RecipeError(f"{source.path} is a speculator; recipes are for models that read text")
    return plan_quantisation(recipe, config, stream_of(source), source.dtype, source.planes)


def _contents(source: Package, plan: Quantisation) -> PackageContents:
    return PackageContents(
        config=plan.config,
        stream=plan.stream,
        tokenizer=_tokenizer(source),
        dialect=source.dialect,
    )


def _tokenizer(source: Package) -> bytes:
    return (source.path / TOKENIZER).read_bytes()


def _engine(source: Package) -> EngineProfile:
    """The release that the package was written for."""
    return ENGINES[source.dialect.name]


def _write(
    source: Package, plan: Quantisation, contents: PackageContents, folder: Path, advance: OnBytes
) -> None:
    written = write_container(
        folder / WEIGHTS, contents.spelled, contents.metadata, on_bytes=advance
    )
    (folder / CONFIG).write_bytes(contents.config_json)
    (folder / TOKENIZER).write_bytes(contents.tokenizer)
    if source.manifest is not None:
        manifest = _manifest(source.manifest, plan, contents, written)
        (folder / MANIFEST).write_bytes(manifest.to_bytes())


def _manifest(
    old: Manifest, plan: Quantisation, contents: PackageContents, written: WrittenHashes
) -> Manifest:
    """The same account of the source, with the recipe and the new files' hashes."""
    files = {
        **old.files,
        "config.json": hashlib.sha256(contents.config_json).hexdigest(),
        "model.safetensors: header": written.header,
    }
    return old.model_copy(
        update={
            "recipe": plan.record,
            "calibration": plan.calibration,
            "files": files,
            "tensors": written.arrays,
            "formats": contents.formats,
        }
    )


def _progress(on_event: OnEvent | None, total: int) -> OnBytes:
    written = 0

    def advance(size: int) -> None:
        nonlocal written
        written += size
        if on_event is not None:
            on_event(Event("write", written, total, "model.safetensors"))

    return advance
