"""How text becomes tokens and back: roles, template, special tokens, reasoning."""

from typing import Annotated, Literal, Self

from pydantic import Discriminator, model_validator

from masu.specs.strict import Strict

ReasoningEffort = Literal["xhigh", "high", "medium", "low", "no_reasoning"]


class ReasoningConfig(Strict):
    """The template variable `field_name` gets the value that belongs to the requested effort."""

    default_reasoning_effort: ReasoningEffort
    field_name: str
    reasoning_effort_to_field_value: dict[ReasoningEffort, str | bool]

    @model_validator(mode="after")
    def _default_has_a_value(self) -> Self:
        if self.default_reasoning_effort not in self.reasoning_effort_to_field_value:
            raise ValueError("default_reasoning_effort has no value in the map")
        return self


class ChatCodecConfig(Strict):
    type: Literal["ChatCodecConfig"]
    prompt_template: str
    output_parser_regex: str | None
    system_role_name: str
    user_role_name: str
    assistant_role_name: str
    eos_token: str | None
    bos_token: str | None
    end_of_thinking_tag: str | None
    default_system_prompt: str | None
    reasoning_config: ReasoningConfig | None


class RawTextCodecConfig(Strict):
    """Text in, text out, no conversation."""

    type: Literal["RawTextCodecConfig"]


TokenCodecConfig = Annotated[ChatCodecConfig | RawTextCodecConfig, Discriminator("type")]
