"""Conversations in which the model calls tools, and reads what they gave."""

from typing import Any

import pytest
from golden import GOLDEN
from scripted_chat import scripted_parts

from masu.runtime.chat import Chat, Reply
from masu.runtime.language_model import load
from masu.specs.errors import RequestError
from masu.specs.text.chat_codec import Tool
from masu.specs.text.segment import Segment

TOOLS: list[Tool] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather in a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
]

TEMPLATE = (GOLDEN.parent / "chat_templates" / "hermes.jinja").read_text()


def call(city: str) -> str:
    return f'<tool_call>\n{{"name": "weather", "arguments": {{"city": "{city}"}}}}\n</tool_call>'


def entry(number: int, city: str) -> dict[str, Any]:
    return {
        "id": f"call0000{number}",
        "type": "function",
        "function": {"name": "weather", "arguments": {"city": city}},
    }


def test_a_conversation_with_a_tool() -> None:
    replies = [f"I look.\n{call('Oslo')}\n{call('Rome')}", "Rain and sun.", call("Bonn"), "Fog."]
    made, model = scripted_parts("llama", replies, prompt_template=TEMPLATE)
    chat = Chat(made, tools=TOOLS)
    *segments, reply = chat.stream("Weather?")
    assert isinstance(reply, Reply)
    assert segments[-2:] == [Segment("tool_call", call("Oslo")), Segment("tool_call", call("Rome"))]
    assert reply.text == "I look."
    assert [(c.name, dict(c.arguments)) for c in reply.tool_calls] == [
        ("weather", {"city": "Oslo"}),
        ("weather", {"city": "Rome"}),
    ]
    answer = chat.answer_tools(["rain", "sun"])
    assert (answer.text, answer.tool_calls) == ("Rain and sun.", ())
    assert [c.text for c in chat.send("And?").tool_calls] == [call("Bonn")]
    *_, last = chat.stream_tools(["fog"])
    assert isinstance(last, Reply)
    assert last.text == "Fog."
    assert chat.messages == [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [entry(0, "Oslo"), entry(1, "Rome")],
        },
        {"role": "tool", "name": "weather", "content": "rain", "tool_call_id": "call00000"},
        {"role": "tool", "name": "weather", "content": "sun", "tool_call_id": "call00001"},
        {"role": "assistant", "content": "Rain and sun."},
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": "", "tool_calls": [entry(2, "Bonn")]},
        {"role": "tool", "name": "weather", "content": "fog", "tool_call_id": "call00002"},
        {"role": "assistant", "content": "Fog."},
    ]
    # The template writes calls as the model did: nothing was run twice.
    final = made.tokenizer.encode(made.codec.render(chat.messages[:-1], tools=TOOLS))
    assert sum(model.fed) == len(final) + last.usage.reply_tokens - 1
    assert len(model.started) == 1


def test_a_malformed_call_stays_in_the_text_and_is_said() -> None:
    broken = '<tool_call>\n{"name": "weather", "arguments": {"city": \n</tool_call>'
    made, _ = scripted_parts("llama", [f"So. {broken}"], prompt_template=TEMPLATE)
    chat = Chat(made, tools=TOOLS)
    reply = chat.send("Weather?")
    assert (reply.text, reply.tool_calls) == (f"So. {broken}", ())
    assert len(reply.malformed_calls) == 1
    assert "tool_calls" not in chat.messages[-1]


def test_without_tools_no_reply_is_searched_for_calls() -> None:
    made, _ = scripted_parts("llama", [call("Oslo")], prompt_template=TEMPLATE)
    reply = Chat(made).send("Weather?")
    assert (reply.text, reply.tool_calls, reply.malformed_calls) == (call("Oslo"), (), ())


def test_marks_of_calls_may_be_special_tokens() -> None:
    template = TEMPLATE + "{# [TOOL_CALLS] #}"
    made, _ = scripted_parts(
        "llama", ['[TOOL_CALLS]f[ARGS]{"a": "<bos>"}'], prompt_template=template
    )
    (found,) = Chat(made, tools=TOOLS).send("Weather?").tool_calls
    assert found.arguments == {"a": "<bos>"}


def test_results_must_be_those_of_the_calls() -> None:
    made, model = scripted_parts("llama", ["Hello", call("Oslo"), ""], prompt_template=TEMPLATE)
    chat = Chat(made, tools=TOOLS)
    for results in (["rain"], []):
        with pytest.raises(RequestError, match="calls no tool"):
            chat.answer_tools(results)
    chat.send("Hi")
    with pytest.raises(RequestError, match="calls no tool"):
        chat.answer_tools(["rain"])
    chat.send("Weather?")
    for results, message in [
        ([], "results of 1 tool calls, found 0"),
        (["rain", "sun"], "results of 1 tool calls, found 2"),
        ("r", "list of texts"),
        ([{"sky": "rain"}], "list of texts"),
    ]:
        with pytest.raises(RequestError, match=message):
            chat.answer_tools(results)  # pyright: ignore[reportArgumentType]
    assert len(chat.messages) == 4
    assert len(model.started) == 1


def test_a_template_without_place_for_tools_refuses_them() -> None:
    made, model = scripted_parts("llama", ["Hello"])
    chat = Chat(made, tools=TOOLS)
    with pytest.raises(RequestError, match="no place for tools"):
        chat.send("Weather?")
    assert (chat.messages, model.started) == ([], [])
    model = load(GOLDEN / "llama-tied" / "engine", backend="numpy")
    messages = [{"role": "user", "content": "Weather?"}]
    with pytest.raises(RequestError, match="no place for tools"):
        model.encode_chat(messages, tools=TOOLS)
    assert model.encode_chat(messages, tools=[]) == model.encode_chat(messages)
