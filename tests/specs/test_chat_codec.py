"""Conversations reach the template with the package's roles, prompt and reasoning switch."""

from datetime import datetime
from typing import Any

import pytest

from masu.specs.codec import ChatCodecConfig, ReasoningConfig
from masu.specs.errors import RequestError, TextError
from masu.specs.text.chat_codec import ChatCodec
from masu.specs.text.reasoning import THINK_PATTERN

USER = {"role": "user", "content": "Hi"}
LIST = "{% for m in messages %}[{{ m.role }}: {{ m.content }}]{% endfor %}"
THINKING = ReasoningConfig(
    default_reasoning_effort="medium",
    field_name="enable_thinking",
    reasoning_effort_to_field_value={"medium": True, "no_reasoning": False},
)


def codec(template: str = LIST, **fields: Any) -> ChatCodec:
    config = {
        "type": "ChatCodecConfig",
        "prompt_template": template,
        "output_parser_regex": None,
        "system_role_name": "developer",
        "user_role_name": "human",
        "assistant_role_name": "model",
        "eos_token": "</s>",
        "bos_token": "<s>",
        "end_of_thinking_tag": None,
        "default_system_prompt": None,
        "reasoning_config": None,
    }
    config = ChatCodecConfig.model_validate({**config, **fields})
    return ChatCodec(config, clock=lambda: datetime(2024, 7, 26))


def test_roles_are_called_as_the_package_says() -> None:
    messages = [
        {"role": "system", "content": "Be kind."},
        USER,
        {"role": "assistant", "content": "Hello"},
        {"role": "tool", "content": "21"},
    ]
    expected = "[developer: Be kind.][human: Hi][model: Hello][tool: 21]"
    assert codec().render(messages) == expected


def test_the_default_system_prompt_stands_where_there_is_none() -> None:
    with_default = codec(default_system_prompt="Be brief.")
    assert with_default.render([USER]) == "[developer: Be brief.][human: Hi]"
    own = [{"role": "system", "content": "Be long."}, USER]
    assert with_default.render(own) == "[developer: Be long.][human: Hi]"


def test_the_callers_messages_stay_as_they_are() -> None:
    messages = [dict(USER)]
    codec(default_system_prompt="Be brief.").render(messages)
    assert messages == [USER]


def test_special_tokens_and_time_reach_the_template() -> None:
    template = (
        "{{ bos_token }}{{ eos_token }}{{ strftime_now('%Y-%m-%d') }}{{ add_generation_prompt }}"
    )
    assert codec(template).render([USER]) == "<s></s>2024-07-26True"
    assert codec(template).render([USER], add_generation_prompt=False).endswith("False")
    assert codec("{{ bos_token is defined }}", bos_token=None).render([USER]) == "False"


def test_keys_that_are_null_are_left_out() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [], "reasoning_content": None}
    template = "{{ messages[0].keys() | list | join(' ') }}"
    assert codec(template).render([message]) == "role tool_calls"


def test_efforts_become_the_template_s_variable() -> None:
    thinking = codec("{{ enable_thinking }}", reasoning_config=THINKING)
    assert thinking.render([USER]) == "True"
    assert thinking.render([USER], reasoning_effort="no_reasoning") == "False"
    assert thinking.render([USER], variables={"enable_thinking": "by hand"}) == "by hand"


def test_unknown_efforts_are_refused_with_the_known_ones() -> None:
    with pytest.raises(RequestError, match="'high': this model knows medium, no_reasoning"):
        codec(reasoning_config=THINKING).render([USER], reasoning_effort="high")
    with pytest.raises(RequestError, match="no choice of efforts"):
        codec().render([USER], reasoning_effort="high")
    with pytest.raises(RequestError, match="no choice of efforts"):
        codec().check_effort("low")
    codec().check_effort(None)


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "at least one message"),
        ([{"content": "Hi"}], "message 0: role must be text, found None"),
        ([USER, {"role": "user"}], r"message 1 \(user\): content must be text, found NoneType"),
        ([{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "found list"),
    ],
)
def test_malformed_messages_are_named(messages: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        codec().render(messages)


def test_an_unusable_package_is_found_at_once() -> None:
    with pytest.raises(TextError, match="does not compile"):
        codec("{% if %}")
    with pytest.raises(TextError, match="output_parser_regex"):
        codec(output_parser_regex="(")


def test_the_parser_knows_the_prompt() -> None:
    thinking = codec(output_parser_regex=THINK_PATTERN, end_of_thinking_tag="\n</think>")
    assert thinking.parser("...<think>\n").opened
    assert not thinking.parser("...").opened
    assert thinking.reads_markers
    assert not codec().reads_markers
