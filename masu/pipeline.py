"""Source -> package -> verdict: what `masu convert` does, as functions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from masu.converter.checkpoint import Checkpoint
from masu.converter.convert import ConversionPlan, accept_config, plan_conversion
from masu.converter.provenance import hash_sources, manifest_source
from masu.converter.sources.resolve import ResolvedSource, named_model, open_source, resolve
from masu.events import Event, OnEvent
from masu.process import peak_bytes
from masu.specs.container_writer import BUFFER_BYTES
from masu.specs.dtypes import FLOAT_DTYPES, FloatDType
from masu.specs.engine import EngineProfile
from masu.specs.engines import DEFAULT_ENGINE, find_engine
from masu.specs.errors import ConfigError, SourceError, VerdictError
from masu.specs.models import ModelSpec
from masu.specs.output import refuse_occupied, require_space, whole_folder
from masu.specs.package_writer import PackageContents, Provenance, write_package
from masu.specs.stream import FileRange
from masu.verdict import Verdict, consistent

MODELS = Path("models")
"""Where packages go without `-o`."""


@dataclass(frozen=True)
class Plan:
    """What a conversion would write; nothing has been written.

    Attributes:
        out: the folder that would appear.
        bytes: exact size of model.safetensors.
        peak_memory: bytes that writing it takes at the most, this process's own included.
        refusals: why the chosen engine would not load the package; empty if it would.
    """

    checkpoint: Checkpoint
    conversion: ConversionPlan
    contents: PackageContents
    engine: EngineProfile
    out: Path
    bytes: int
    refusals: tuple[str, ...]

    @property
    def peak_memory(self) -> int:
        return peak_bytes() + BUFFER_BYTES + self.conversion.chunk_bytes


@dataclass(frozen=True)
class Conversion:
    """A finished package.

    Attributes:
        tensors: stored arrays in model.safetensors.
        bytes: size of model.safetensors.
        verdict: None if it was not asked for.
        refusals: why the chosen engine will not load it; masu's own runtime does.
        notes: remarks of the ledger (ties, rounding, templates, stop tokens).
        seconds: duration of each stage.
    """

    path: Path
    model_type: str
    tensors: int
    bytes: int
    dtype: str
    verdict: Verdict | None
    refusals: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: Mapping[str, float] = field(default_factory=dict)


class Settings(NamedTuple):
    """How a source is to be converted; see `plan` for each."""

    spec: ModelSpec | None
    dtype: str
    engine: str
    family: str | None
    revision: str | None
    offline: bool
    overwrite: bool | None = None
    """Whether an occupied target may be replaced; None where nothing will be written."""


def plan(
    source: str | Path,
    out: str | Path | None = None,
    *,
    spec: ModelSpec | None = None,
    dtype: str = "bfloat16",
    engine: str = DEFAULT_ENGINE,
    family: str | None = None,
    revision: str | None = None,
    offline: bool = False,
    on_event: OnEvent | None = None,
) -> Plan:
    """Open a source and plan its package; no weight is read but the two sides of a tie.

    Args:
        source: a named model, `org/name[@revision]`, a folder, a `.gguf` file, or
            `pypi:distribution==version`.
        out: the package's folder; by default `models/<name>`.
        spec: overrides for text and sampling; by default those of the named model, if it is one.
        family: the `model_type` to use whatever the config says.

    Raises:
        SourceError: the checkpoint cannot be converted; the message names every problem.
        EngineError: no such engine, or its dialect has no words for this model.
    """
    settings = Settings(spec, dtype, engine, family, revision, offline)
    return _plan(source, out, settings, on_event)


def convert(
    source: str | Path,
    out: str | Path | None = None,
    *,
    spec: ModelSpec | None = None,
    dtype: str = "bfloat16",
    engine: str = DEFAULT_ENGINE,
    family: str | None = None,
    revision: str | None = None,
    overwrite: bool = False,
    verify: bool = True,
    offline: bool = False,
    on_event: OnEvent | None = None,
) -> Conversion:
    """Convert a checkpoint into a package, load it strictly, and compare its numbers.

    The package appears under its name only when it is complete and has passed; see `plan` for
    the other arguments.

    Raises:
        SourceError, EngineError: as `plan`.
        OutputError: the target is taken or cannot be written.
        VerdictError: the package does not compute what the source says; nothing is left behind.
    """
    clock = _Clock()
    settings = Settings(spec, dtype, engine, family, revision, offline, overwrite)
    planned = _plan(source, out, settings, on_event)
    clock.lap("plan")
    require_space(planned.out, planned.bytes)
    with whole_folder(planned.out, overwrite=overwrite) as folder:
        _write(planned, folder, on_event)
        clock.lap("write")
        verdict = _verify(planned, folder, on_event) if verify else None
        clock.lap("verify")
    return _conversion(planned, dtype, verdict, clock.seconds)


def _plan(
    source: str | Path, out: str | Path | None, settings: Settings, on_event: OnEvent | None
) -> Plan:
    engine = find_engine(settings.engine)
    spec = settings.spec or _entry(source) or ModelSpec(repo=str(source))
    if spec.unsupported is not None:
        raise SourceError(f"{spec.name} cannot be converted: {spec.unsupported}")
    dtype = _stored_dtype(settings.dtype)
    named = str(source.absolute()) if isinstance(source, Path) else source
    resolved = resolve(named, revision=settings.revision)
    target = Path(out) if out is not None else MODELS / (spec.name or resolved.name)
    if settings.overwrite is not None:
        refuse_occupied(target, overwrite=settings.overwrite)
    checkpoint = _open(resolved, spec, settings, on_event)
    conversion = plan_conversion(checkpoint, spec, dtype=dtype, family=settings.family)
    contents = PackageContents(
        config=conversion.config,
        stream=conversion.stream,
        tokenizer=conversion.tokenizer,
        dialect=engine.dialect,
    )
    formats = {t.name: t.format for t in conversion.stream if t.format is not None}
    return Plan(
        checkpoint=checkpoint,
        conversion=conversion,
        contents=contents,
        engine=engine,
        out=target,
        bytes=contents.layout.size,
        refusals=tuple(engine.refusals(conversion.config, formats, dtype)),
    )


def _entry(source: str | Path) -> ModelSpec | None:
    """The named model, if that is what the source is; a Path never is one."""
    return None if isinstance(source, Path) else named_model(source)


def _open(
    source: ResolvedSource, spec: ModelSpec, settings: Settings, on_event: OnEvent | None
) -> Checkpoint:
    """The checkpoint, its config accepted before any weight is fetched."""

    def accept(config: Mapping[str, Any]) -> None:
        accept_config(config, settings.family, source.name)

    return open_source(
        source,
        offline=settings.offline,
        files=spec.files,
        accept=accept,
        on_message=_fetching(on_event),
    )


def _conversion(
    planned: Plan, dtype: str, verdict: Verdict | None, seconds: Mapping[str, float]
) -> Conversion:
    return Conversion(
        path=planned.out,
        model_type=planned.conversion.family,
        tensors=sum(len(tensor.arrays) for tensor in planned.conversion.stream),
        bytes=planned.bytes,
        dtype=dtype,
        verdict=verdict,
        refusals=planned.refusals,
        notes=planned.conversion.ledger.notes,
        seconds=seconds,
    )


def _write(planned: Plan, folder: Path, on_event: OnEvent | None) -> None:
    conversion, checkpoint = planned.conversion, planned.checkpoint
    provenance = Provenance(
        masu_version=version("masu"),
        engine=planned.engine.name,
        dtype=conversion.dtype,
        source=manifest_source(checkpoint),
        ledger=conversion.ledger,
    )
    written = 0

    def advance(size: int) -> None:
        nonlocal written
        written += size
        if on_event is not None:
            on_event(Event("write", written, planned.bytes, "model.safetensors"))

    def hashes(copied: Mapping[FileRange, str]) -> Mapping[str, str]:
        return hash_sources(checkpoint, conversion, copied)

    write_package(folder, planned.contents, provenance, hashes, on_bytes=advance)


def _verify(planned: Plan, folder: Path, on_event: OnEvent | None) -> Verdict:
    if on_event is not None:
        on_event(Event("verify", 0, 0, "strict load, then logits against the source"))
    verdict = consistent(folder, planned.conversion)
    if not verdict.passed:
        raise VerdictError(
            f"{planned.out}: {verdict.describe()}",
            hint="nothing was written; this is a defect of the conversion, please report it",
        )
    return verdict


def _stored_dtype(dtype: str) -> FloatDType:
    if dtype not in FLOAT_DTYPES:
        raise ConfigError(f"dtype: expected {', '.join(FLOAT_DTYPES)}, found {dtype!r}")
    return FLOAT_DTYPES[dtype]


def _fetching(on_event: OnEvent | None) -> Callable[[str], None] | None:
    if on_event is None:
        return None
    return lambda message: on_event(Event("fetch", 0, 0, message))


class _Clock:
    """Seconds between laps, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = perf_counter()

    def lap(self, name: str) -> None:
        now = perf_counter()
        self.seconds[name] = now - self._last
        self._last = now
