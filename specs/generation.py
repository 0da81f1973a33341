"""The package's own defaults for sampling and stopping."""

from typing import Annotated

from pydantic import Field

from masu.specs.strict import U32, U64, Strict


class GenerationConfig(Strict):
    stop_token_ids: tuple[U64, ...]
    temperature: float | None
    top_k: U32 | None
    top_p: float | None
    min_p: float | None
    banned_tokens: Annotated[tuple[U64, ...], Field(max_length=16)] | None
    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    suffix_repetition_length: U32 | None


NO_GENERATION_DEFAULTS = GenerationConfig(
    stop_token_ids=(),
    temperature=None,
    top_k=None,
    top_p=None,
    min_p=None,
    banned_tokens=None,
    repetition_penalty=None,
    presence_penalty=None,
    frequency_penalty=None,
    suffix_repetition_length=None,
)
