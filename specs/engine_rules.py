"""Limits of whole models: types, dtype, sampling defaults, chat, companions in the folder."""

from collections.abc import Collection, Iterator

from masu.specs.codec import ChatCodecConfig
from masu.specs.engine import Breach, Candidate, Rule
from masu.specs.engine_places import generation, hybrids, layers
from masu.specs.json_objects import objects
from masu.specs.model import ClassifierModelConfig, LanguageModelConfig, SpeculatorModelConfig

COMPUTE_DTYPE = "BF16"


def known_types(names: Collection[str]) -> Rule:
    """Every `type` tag of config.json is one of the engine's own."""

    def breaches(candidate: Candidate) -> Iterator[Breach]:
        for place, value in objects(candidate.config.model_dump()):
            tag = value.get("type")
            if tag is not None and tag not in names:
                yield Breach(place or "config.json", f"the engine has no {tag}")

    return Rule("known-types", "config.json holds only types that the engine has", breaches)


def _other_dtype(candidate: Candidate) -> Iterator[Breach]:
    if candidate.dtype != COMPUTE_DTYPE:
        reason = f"the engine loads {COMPUTE_DTYPE} parameters, these are {candidate.dtype}"
        yield Breach("model.safetensors", reason)


def _other_pooling(candidate: Candidate) -> Iterator[Breach]:
    config = candidate.config
    if isinstance(config, ClassifierModelConfig):
        pooling = config.classifier_config.classifier_pooling
        if pooling != "mean":
            reason = f"pooling by {pooling}; the engine has mean"
            yield Breach("classifier_config.classifier_pooling", reason)


def _typed_samplers(candidate: Candidate) -> Iterator[Breach]:
    defaults = generation(candidate)
    for name in ("banned_tokens", "presence_penalty", "frequency_penalty"):
        if getattr(defaults, name, None) is not None:
            yield Breach(f"generation_config.{name}", "the engine does not have this sampler")


def _penalties_without_window(candidate: Candidate) -> Iterator[Breach]:
    defaults = generation(candidate)
    if defaults is None or defaults.repetition_penalty is None:
        return
    if defaults.suffix_repetition_length is None:
        reason = "null; the engine generates with a repetition penalty only if it has a length"
        yield Breach("generation_config.suffix_repetition_length", reason)


def _sampling_out_of_range(candidate: Candidate) -> Iterator[Breach]:
    defaults = generation(candidate)
    for name in ("temperature", "repetition_penalty", "suffix_repetition_length"):
        value = getattr(defaults, name, None)
        if value is not None and value <= 0:
            reason = f"{value}; the engine samples with values above 0 only"
            yield Breach(f"generation_config.{name}", reason)


def _chat_codec(candidate: Candidate) -> ChatCodecConfig | None:
    """Of a model that answers in chat; a classifier does render its own template."""
    config = candidate.config
    if isinstance(config, LanguageModelConfig):
        codec = config.token_codec_config
        return codec if isinstance(codec, ChatCodecConfig) else None
    return None


def _own_prompts(candidate: Candidate) -> Iterator[Breach]:
    if _chat_codec(candidate) is not None:
        reason = "chat prompts follow the engine's own encoding (encoding.json), not this template"
        yield Breach("token_codec_config.prompt_template", reason)


def _own_parser(candidate: Candidate) -> Iterator[Breach]:
    codec = _chat_codec(candidate)
    if codec is not None and codec.output_parser_regex is not None:
        reason = "the engine reads it and splits replies by its own encoding"
        yield Breach("token_codec_config.output_parser_regex", reason)


def _no_shapes(candidate: Candidate) -> Iterator[Breach]:
    folder = None
    if "speculator/config.json" in candidate.files:
        folder = "speculator/"
    elif candidate.files and isinstance(candidate.config, SpeculatorModelConfig):
        folder = ""
    if folder is not None and f"{folder}shapes.json" not in candidate.files:
        yield Breach(f"{folder}shapes.json", "missing; the engine reads the shape of drafts there")


def _has_speculator(candidate: Candidate) -> bool:
    return any(name.startswith("speculator/") for name in candidate.files)


def _undraftable_mixers(candidate: Candidate) -> Iterator[Breach]:
    for layer in layers(candidate):
        if layer.config.mixer_config.type == "Mamba2Config" and _has_speculator(candidate):
            reason = "Mamba2 cannot take back drafted tokens, and there is a speculator"
            yield Breach(f"{layer.place}.mixer_config", reason)


def _undraftable_convs(candidate: Candidate) -> Iterator[Breach]:
    for layer in layers(candidate):
        for name in ("mixer_conv_config", "mlp_conv_config"):
            if getattr(layer.config, name) is not None and _has_speculator(candidate):
                reason = "its kernel has no trees of drafts, and there is a speculator"
                yield Breach(f"{layer.place}.{name}", reason)


def _drafts_of_rotated_tables(candidate: Candidate) -> Iterator[Breach]:
    for path, _ in hybrids(candidate):
        if path.endswith(".embedding.embedding") and _has_speculator(candidate):
            reason = "tied and rotated; drafts are read out without the rotation"
            yield Breach(path, reason)


def _penalised_drafts(candidate: Candidate) -> Iterator[Breach]:
    defaults = generation(candidate)
    penalised = defaults is not None and defaults.repetition_penalty is not None
    if penalised and _has_speculator(candidate):
        reason = "a repetition penalty cannot follow drafts, and there is a speculator"
        yield Breach("generation_config.repetition_penalty", reason)


MODEL_RULES = (
    Rule("parameters-in-bf16", "the model's own parameters are BF16", _other_dtype),
    Rule("mean-pooling", "a classifier pools by the mean", _other_pooling),
    Rule(
        "penalty-window",
        "a repetition penalty has a suffix_repetition_length",
        _penalties_without_window,
    ),
    Rule(
        "drafts-without-penalty",
        "beside a speculator there is no repetition penalty",
        _penalised_drafts,
    ),
    Rule(
        "own-prompts",
        "prompts of a chat are rendered from the engine's own encoding config",
        _own_prompts,
        "differs",
    ),
    Rule(
        "own-parser",
        "replies are split by the engine's own encoding config",
        _own_parser,
        "differs",
    ),
)
"""What every release so far has in common."""

TYPED_SAMPLERS = Rule(
    "known-samplers",
    "banned_tokens, presence_penalty and frequency_penalty are null",
    _typed_samplers,
)
SAMPLING_RANGES = Rule(
    "sampling-ranges",
    "temperature, repetition penalty and its length are above 0",
    _sampling_out_of_range,
)
SHAPES = Rule("speculator-shapes", "a speculator has a shapes.json", _no_shapes)
DRAFTABLE = Rule("draftable-mixers", "beside a speculator there is no Mamba2", _undraftable_mixers)
DRAFTABLE_CONVS = Rule(
    "draftable-convs", "beside a speculator there are no layer convolutions", _undraftable_convs
)
DRAFTED_TABLES = Rule(
    "drafted-tables",
    "beside a speculator no tied table is rotated",
    _drafts_of_rotated_tables,
    "differs",
)
