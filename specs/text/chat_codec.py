"""A conversation as the package wants it: its roles, its default prompt, its reasoning switch."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

from masu.specs.codec import ChatCodecConfig, ReasoningEffort
from masu.specs.errors import MasuError, RequestError
from masu.specs.text.parser import ReplyParser, compile_pattern
from masu.specs.text.template import ChatTemplate
from masu.specs.text.tool_styles import tool_style

Message: TypeAlias = Mapping[str, Any]
"""`role` ("system", "user", "assistant", or one that only the template knows, such as "tool"),
`content`, and what else the template reads (`reasoning_content`, `tool_calls` ...)."""

Tool: TypeAlias = Mapping[str, Any]
"""What a model is told of a function: `{"type": "function", "function": {"name", "description",
"parameters"}}` with a JSON Schema as `parameters`, as transformers and most templates have it."""


class ChatCodec:
    """Conversations to prompts, and replies to their parts.

    Args:
        clock: the time that templates tell the model.

    Raises:
        TextError: the template or the pattern of the package cannot be used.
    """

    def __init__(
        self, config: ChatCodecConfig, clock: Callable[[], datetime] = datetime.now
    ) -> None:
        self.config = config
        self._template = ChatTemplate(
            config.prompt_template, config.bos_token, config.eos_token, clock
        )
        self._tool_style = tool_style(config.prompt_template)
        if config.output_parser_regex is not None:
            compile_pattern(config.output_parser_regex)

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        reasoning_effort: ReasoningEffort | None = None,
        tools: Sequence[Tool] = (),
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt.

        Args:
            reasoning_effort: None takes the package's default, where it has one.
            tools: that the model may call.
            variables: for the template, beside those that the package sets.

        Raises:
            RequestError: no messages, a message without role or content, an effort that the model
                does not know, messages that the template refuses, or tools that it ignores.
            TextError: the template fails.
        """
        render = partial(
            self._template.render,
            self._messages(messages),
            add_generation_prompt=add_generation_prompt,
            variables={**self._reasoning(reasoning_effort), **(variables or {})},
        )
        if not tools:
            return render()
        prompt = render(tools=tools)
        if prompt == _text_or_none(render):
            raise RequestError("the chat template of this model has no place for tools")
        return prompt

    def parser(self, prompt: str, *, calls: bool = False) -> ReplyParser:
        """A parser for the reply to this prompt.

        Args:
            calls: look for tool calls. They stay in the text where the template's way of writing
                them is not one of `tool_styles`.
        """
        config, style = self.config, self._tool_style if calls else None
        return ReplyParser(config.output_parser_regex, config.end_of_thinking_tag, prompt, style)

    def check_effort(self, effort: ReasoningEffort | None) -> None:
        """RequestError if the model knows no such effort; None is its default."""
        self._reasoning(effort)

    @property
    def reads_markers(self) -> bool:
        """Whether replies hold markers, so that special tokens must stay in their text."""
        config = self.config
        return config.output_parser_regex is not None or config.end_of_thinking_tag is not None

    def _messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        if not messages:
            raise RequestError("a conversation needs at least one message")
        config = self.config
        roles = {
            "system": config.system_role_name,
            "user": config.user_role_name,
            "assistant": config.assistant_role_name,
        }
        named = [_checked(message, place) for place, message in enumerate(messages)]
        if config.default_system_prompt is not None and named[0]["role"] != "system":
            named.insert(0, {"role": "system", "content": config.default_system_prompt})
        return [
            {**message, "role": roles.get(message["role"], message["role"])} for message in named
        ]

    def _reasoning(self, effort: ReasoningEffort | None) -> dict[str, str | bool]:
        config = self.config.reasoning_config
        if config is None:
            if effort is not None:
                raise RequestError(
                    f"reasoning effort {effort!r}: this model has no choice of efforts"
                )
            return {}
        values = config.reasoning_effort_to_field_value
        effort = config.default_reasoning_effort if effort is None else effort
        if effort not in values:
            known = ", ".join(values)
            raise RequestError(f"reasoning effort {effort!r}: this model knows {known}")
        return {config.field_name: values[effort]}


def _text_or_none(render: Callable[[], str]) -> str | None:
    try:
        return render()
    except MasuError:
        return None


def _checked(message: Message, place: int) -> dict[str, Any]:
    """A message with a role and text, without the keys that are null (as in transformers)."""
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str):
        raise RequestError(f"message {place}: role must be text, found {role!r}")
    if not isinstance(content, str) and (content is not None or "tool_calls" not in message):
        kind = type(content).__name__
        raise RequestError(f"message {place} ({role}): content must be text, found {kind}")
    return {key: value for key, value in message.items() if value is not None}
