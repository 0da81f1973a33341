"""Source -> package -> verdict: what `masu convert` does, as functions."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from masu.calibrating import calibrated, refuse_idle_text, scratch_in
from masu.converter.convert import ConversionPlan
from masu.converter.provenance import hash_sources, manifest_source
from masu.converter.template_parity import refuse_differences
from masu.events import Event, OnEvent
from masu.fidelity import planned_reference, write_page
from masu.planning import MODELS, Plan, Settings, make_plan, plan
from masu.reporting import report_on, require_writable
from masu.specs.codec import ChatCodecConfig
from masu.specs.engines import DEFAULT_ENGINE
from masu.specs.errors import VerdictError
from masu.specs.journal import sources_stamp
from masu.specs.models import ModelSpec
from masu.specs.output import require_space, whole_folder
from masu.specs.package_writer import Provenance, write_package
from masu.specs.recipe import Recipe
from masu.specs.report import Report
from masu.specs.stream import FileRange
from masu.verdict import Verdict
from masu.verification.judge import judge
from masu.verification.recorded import write_fingerprints

__all__ = ["MODELS", "Conversion", "Plan", "convert", "plan"]


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
    resume: bool = False,
    verify: bool = True,
    offline: bool = False,
    recipe: str | Path | Recipe | None = None,
    calibration: str | Path | None = None,
    report: str | Path | None = None,
    on_event: OnEvent | None = None,
) -> Conversion:
    """Convert a checkpoint into a package, load it strictly, and compare its numbers.

    The package appears under its name only when it is complete and has passed.

    Args:
        resume: go on with what an interrupted run of the same source, settings and version left.
        calibration: a text file, or `generated`, for calibrated methods; see `calibrated`.
        report: an HTML page to write, for which fidelity is measured against the source.

    Raises:
        SourceError, EngineError: as `plan`, which describes the other arguments.
        TextError: transformers renders the chat template otherwise.
        OutputError: the target is taken or cannot be written.
        VerdictError: the package does not compute what the source says; nothing is left behind.
    """
    settings = Settings(spec, dtype, engine, family, revision, offline, recipe, overwrite)
    options = _Options(overwrite, resume, verify, calibration, report)
    return _converted(source, out, settings, options, on_event)


class _Options(NamedTuple):
    """What `convert` asks for besides the plan."""

    overwrite: bool
    resume: bool
    verify: bool
    calibration: str | Path | None
    report: str | Path | None


def _converted(
    source: str | Path,
    out: str | Path | None,
    settings: Settings,
    options: _Options,
    on_event: OnEvent | None,
) -> Conversion:
    clock = _Clock()
    if options.report is not None:
        require_writable(options.report)
    planned = make_plan(source, out, settings, on_event)
    remarks = _rendering(planned.conversion) if options.verify else ()
    clock.lap("plan")
    require_space(planned.out, planned.bytes)
    with (
        whole_folder(planned.out, overwrite=options.overwrite, resume=options.resume) as folder,
        scratch_in(folder) as scratch,
    ):
        planned = _calibrated(planned, scratch, options.calibration, on_event)
        clock.lap("calibrate")
        _write(planned, folder, on_event)
        clock.lap("write")
        verdict = _verify(planned, folder, remarks, on_event) if options.verify else None
        clock.lap("verify")
        report = _report(planned, folder, verdict, options.report, clock.seconds, on_event)
    if options.report is not None:
        write_page(options.report, report)
    return _conversion(planned, settings.dtype, verdict, clock.seconds)


def _report(
    planned: Plan,
    folder: Path,
    verdict: Verdict | None,
    page: str | Path | None,
    seconds: Mapping[str, float],
    on_event: OnEvent | None,
) -> Report:
    return report_on(
        folder,
        planned.out.name,
        planned_reference(planned.source),
        page=page,
        verdict=verdict,
        recipe=planned.recipe_name,
        seconds=seconds,
        on_event=on_event,
    )


def _calibrated(
    planned: Plan, scratch: Path, text: str | Path | None, on_event: OnEvent | None
) -> Plan:
    """The plan with the codes of calibrated methods, if its recipe has some."""
    if planned.quantisation is None:
        refuse_idle_text(text)
        return planned
    conversion, planes = planned.conversion, planned.engine.dialect.planes
    made = calibrated(
        planned.quantisation,
        conversion.tokenizer,
        conversion.dtype,
        planes,
        scratch,
        text=text,
        on_event=on_event,
    )
    return replace(planned, quantisation=made)


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
        family=conversion.family,
        overrides=planned.spec.overrides,
        ledger=conversion.ledger,
        recipe=planned.recipe_record,
        calibration=planned.quantisation and planned.quantisation.calibration,
        stop_origins=conversion.stop_origins,
    )
    written = 0

    def advance(size: int) -> None:
        nonlocal written
        written += size
        if on_event is not None:
            on_event(Event("write", written, planned.bytes, "model.safetensors"))

    def hashes(copied: Mapping[FileRange, str]) -> Mapping[str, str]:
        return hash_sources(checkpoint, conversion, copied)

    stamp = sources_stamp({tensor.stored.path for tensor in checkpoint.tensors.values()})
    write_package(
        folder, planned.contents, provenance, hashes, on_bytes=advance, sources_stamp=stamp
    )


def _rendering(conversion: ConversionPlan) -> tuple[str, ...]:
    """What is to be told of the chat template; one that is rendered otherwise is refused."""
    codec = conversion.config.token_codec_config
    if not isinstance(codec, ChatCodecConfig):
        return ()
    template, where = conversion.chat_template, conversion.name
    if refuse_differences(template, codec.bos_token, codec.eos_token, where):
        return ()
    return ("the chat template was not compared with transformers, which is not installed",)


def _verify(
    planned: Plan, folder: Path, remarks: tuple[str, ...], on_event: OnEvent | None
) -> Verdict:
    if on_event is not None:
        on_event(Event("verify", 0, 0, "strict load, then each block against the source"))
    verdict = judge(folder, planned.conversion, planned.checkpoint)
    if not verdict.passed:
        raise VerdictError(
            f"{planned.out}: {verdict.describe()}",
            hint="nothing was written; this is a defect of the conversion, please report it",
        )
    write_fingerprints(folder)
    return replace(verdict, remarks=(*remarks, *verdict.remarks))


class _Clock:
    """Seconds between laps, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = perf_counter()

    def lap(self, name: str) -> None:
        now = perf_counter()
        self.seconds[name] = now - self._last
        self._last = now
