"""Tokenizer, template, special tokens and sampling defaults, as the engine has them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import ValidationError
from tokenizers import Tokenizer

from masu.converter.added_tokens import merge_added_tokens
from masu.converter.chat_template import RAW, RAW_CLASSIFIER, choose_template
from masu.converter.checkpoint import SYSTEM_PROMPT, Checkpoint
from masu.specs.codec import ChatCodecConfig
from masu.specs.errors import MasuError, TextError
from masu.specs.generation import NO_GENERATION_DEFAULTS, GenerationConfig
from masu.specs.jsonfile import read_json
from masu.specs.manifest import LedgerEntry
from masu.specs.models import ModelSpec
from masu.specs.text.stops import StopSet
from masu.specs.text.template import ChatTemplate
from masu.specs.text.tokenizer_file import read_tokenizer

GENERATION_CONFIG = "generation_config.json"

SAMPLING_KEYS = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")

GENERATION_INERT: Mapping[str, str] = {
    "_from_model_config": "a mark of transformers",
    "bos_token_id": "the tokenizer carries it",
    "cache_implementation": "how transformers stores its cache",
    "do_sample": "the engine always samples",
    "max_length": "a limit of one request, not of the model",
    "max_new_tokens": "a limit of one request, not of the model",
    "pad_token_id": "padding is not used by the engine",
    "transformers_version": "the version that saved the file",
    "trust_remote_code": "no remote code is ever run",
}


def _is_neutral(value: Any) -> bool:
    """Whether an option of transformers does nothing at this value: `1.0` is, `True` and 1 not."""
    if isinstance(value, float):
        return value in (0.0, 1.0)
    return (
        value is None or value is False or value in ([], {}) or (value == 0 and value is not True)
    )


@dataclass(frozen=True)
class ImportedText:
    """What the package says about text.

    Attributes:
        codec: template, roles, special tokens, reasoning.
        generation: sampling defaults and the union of stop ids.
        tokenizer: bytes of tokenizer.json, all added tokens in it.
        template: the chat template as the checkpoint has it.
        files: what became of each tokenizer file and each key of generation_config.json.
        stop_origins: where each stop id came from.
        notes: remarks for the ledger.
    """

    codec: ChatCodecConfig
    generation: GenerationConfig
    tokenizer: bytes
    template: str
    files: Mapping[str, LedgerEntry]
    stop_origins: Mapping[int, tuple[str, ...]]
    notes: tuple[str, ...] = field(default=())


def import_text(
    checkpoint: Checkpoint, spec: ModelSpec, vocab_size: int, *, classifies: bool = False
) -> ImportedText:
    """Read every tokenizer file of the checkpoint, account for each, and build the codec.

    Args:
        classifies: the model gives labels and generates nothing.

    Raises:
        TextError: no tokenizer.json, contradicting ids, an unusable template or token.
    """
    texts = {name: _parsed(checkpoint, name) for name in checkpoint.texts if name.endswith("json")}
    tokenizer = _load_tokenizer(checkpoint)
    settings = texts.get("tokenizer_config.json", {})
    merge_added_tokens(tokenizer, texts["tokenizer.json"], settings, texts.get("added_tokens.json"))
    raw = RAW_CLASSIFIER if classifies else RAW
    template = choose_template(checkpoint, settings, texts.get("chat_template.json"), spec, raw)
    defaults = {} if classifies else texts.get(GENERATION_CONFIG, {})
    special = _SpecialTokens(settings, texts, checkpoint.config, tokenizer)
    eos_token, bos_token = special.known("eos_token"), special.known("bos_token")
    stops = StopSet.collect(checkpoint.config, defaults, special.id(eos_token))
    generation, ledger = _generation(defaults, stops.ids, spec)
    return ImportedText(
        codec=_codec(checkpoint, spec, template.source, eos_token, bos_token),
        generation=generation,
        tokenizer=tokenizer.to_str(pretty=True).encode(),
        template=template.original,
        files={**_used_files(checkpoint, classifies), **template.files, **ledger},
        stop_origins={} if classifies else stops.origins,
        notes=(
            *template.notes,
            *_vocabulary_notes(tokenizer, vocab_size),
            *(() if classifies else _stop_notes(stops, vocab_size)),
        ),
    )


def _codec(
    checkpoint: Checkpoint,
    spec: ModelSpec,
    template: str,
    eos_token: str | None,
    bos_token: str | None,
) -> ChatCodecConfig:
    rendered = ChatTemplate(template, bos_token, eos_token)
    probe = [{"role": spec.user_role, "content": "Hello"}]
    try:
        rendered.render(probe)
    except MasuError as error:
        raise TextError(
            f"{checkpoint.name}: the chat template fails: {error.message}",
            problems=error.problems,
            hint=error.hint,
        ) from None
    return ChatCodecConfig(
        type="ChatCodecConfig",
        prompt_template=template,
        output_parser_regex=spec.parser_regex,
        system_role_name=spec.system_role,
        user_role_name=spec.user_role,
        assistant_role_name=spec.assistant_role,
        eos_token=eos_token,
        bos_token=bos_token,
        end_of_thinking_tag=spec.end_of_thinking_tag,
        default_system_prompt=_system_prompt(checkpoint, spec),
        reasoning_config=spec.reasoning,
    )


def _parsed(checkpoint: Checkpoint, name: str) -> Any:
    where = checkpoint.where(name)
    parsed = read_json(checkpoint.texts[name], where, error=TextError)
    if not isinstance(parsed, dict):
        raise TextError(f"{where}: expected an object, found {type(parsed).__name__}")
    return parsed


def _load_tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    data = checkpoint.texts.get("tokenizer.json")
    if data is None:
        raise TextError(
            f"{checkpoint.name}: no tokenizer.json",
            hint="save the tokenizer in its fast form: "
            "AutoTokenizer.from_pretrained(...).save_pretrained(...)",
        )
    return read_tokenizer(data, checkpoint.where("tokenizer.json")).tokenizer


class _SpecialTokens(NamedTuple):
    """Where a special token may be named, the first that does winning."""

    settings: Any
    texts: Any
    config: Mapping[str, Any]
    tokenizer: Tokenizer

    def text(self, key: str) -> str | None:
        """`bos_token` or `eos_token`: by the tokenizer's files, else by its id in config.json."""
        for source in (self.settings, self.texts.get("special_tokens_map.json", {})):
            value = source.get(key)
            if isinstance(value, dict):
                value = value.get("content")
            if value is not None:
                if not isinstance(value, str):
                    raise TextError(f"{key}: expected a string or a token object, found {value!r}")
                return value
        ids = self.config.get(f"{key}_id")
        first = ids[0] if isinstance(ids, list) and ids else ids
        return self.tokenizer.id_to_token(first) if isinstance(first, int) else None

    def known(self, key: str) -> str | None:
        """The same, if it is a token at all."""
        text = self.text(key)
        if text is not None and self.id(text) is None:
            raise TextError(f"{key}: {text!r} is not a token of tokenizer.json")
        return text

    def id(self, text: str | None) -> int | None:
        return None if text is None else self.tokenizer.token_to_id(text)


def _system_prompt(checkpoint: Checkpoint, spec: ModelSpec) -> str | None:
    data = checkpoint.texts.get(SYSTEM_PROMPT)
    if data is None:
        return spec.default_system_prompt
    if spec.default_system_prompt is not None:
        raise TextError(
            f"the model's entry gives two system prompts: default_system_prompt and {SYSTEM_PROMPT}"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        where = checkpoint.where(SYSTEM_PROMPT)
        raise TextError(f"{where}: expected UTF-8 text: {error}") from None


def _generation(
    defaults: Mapping[str, Any], stops: tuple[int, ...], spec: ModelSpec
) -> tuple[GenerationConfig, dict[str, LedgerEntry]]:
    """Sampling defaults as written, and what became of every key."""
    config = NO_GENERATION_DEFAULTS.model_copy(update={"stop_token_ids": stops})
    values = {key: defaults[key] for key in SAMPLING_KEYS if key in defaults}
    ledger = {
        f"generation_config.json: {key}": _generation_entry(key, value)
        for key, value in sorted(defaults.items())
    }
    try:
        read = GenerationConfig.model_validate({**dict(config), **values})
    except ValidationError as error:
        problems = [f"{e['loc'][0]}: {e['msg']}, found {e['input']!r}" for e in error.errors()]
        raise TextError("generation_config.json:", problems=problems) from None
    return spec.generation.apply(read), ledger


def _stop_notes(stops: StopSet, vocab_size: int) -> tuple[str, ...]:
    """Ids that no row stands for: no fault, since they never come, but hardly what was meant.

    transformers' defaults are such ids in every model with a small vocabulary.
    """
    return tuple(
        f"stop token {token} of {' and '.join(origins)} never comes: the model has {vocab_size} "
        "rows"
        for token, origins in stops.origins.items()
        if token >= vocab_size
    )


def _generation_entry(key: str, value: Any) -> LedgerEntry:
    if key in SAMPLING_KEYS:
        return _used(f"config.json: generation_config.{key}")
    if key == "eos_token_id":
        return _used("config.json: generation_config.stop_token_ids")
    if key == "do_sample" and value is False:
        reason = "the engine samples unless a request asks for temperature 0"
        return LedgerEntry(status="left_out", into=(), reason=reason)
    if key in GENERATION_INERT or _is_neutral(value):
        reason = GENERATION_INERT.get(key, "at its neutral value")
        return LedgerEntry(status="inert", into=(), reason=reason)
    reason = "the engine has no such option"
    return LedgerEntry(status="left_out", into=(), reason=reason)


def _used(into: str, origin: str | None = None) -> LedgerEntry:
    return LedgerEntry(status="used", into=(into,), reason=origin and f"from {origin}")


def _used_files(checkpoint: Checkpoint, classifies: bool) -> dict[str, LedgerEntry]:
    into = {
        "tokenizer.json": "tokenizer.json",
        "tokenizer_config.json": "config.json: token_codec_config",
        "special_tokens_map.json": "config.json: token_codec_config",
        "added_tokens.json": "tokenizer.json",
        GENERATION_CONFIG: "config.json: generation_config",
        SYSTEM_PROMPT: "config.json: token_codec_config.default_system_prompt",
    }
    origins = checkpoint.text_origins
    used = {name: _used(into[name], origins.get(name)) for name in checkpoint.texts if name in into}
    if classifies and GENERATION_CONFIG in used:
        reason = "a classifier generates nothing"
        used[GENERATION_CONFIG] = LedgerEntry(status="inert", into=(), reason=reason)
    return used


def _vocabulary_notes(tokenizer: Tokenizer, vocab_size: int) -> tuple[str, ...]:
    """Ids that the model has no row for: refused in the vocabulary proper, noted when added."""
    base = tokenizer.get_vocab(with_added_tokens=False)
    largest = max(base.values(), default=-1)
    if largest >= vocab_size:
        raise TextError(
            f"tokenizer.json has ids up to {largest}, config.json says vocab_size {vocab_size}",
            hint="the tokenizer is not that of this model",
        )
    beyond = sorted(
        (token_id, token)
        for token, token_id in tokenizer.get_vocab(with_added_tokens=True).items()
        if token_id >= vocab_size
    )
    return tuple(
        f"added token {token!r} has id {token_id}, but the model has {vocab_size} rows: "
        "a prompt that holds it is refused"
        for token_id, token in beyond
    )
