"""Tool calls and their results as messages of a conversation, in the form that templates read."""

from collections.abc import Mapping, Sequence
from typing import Any

from masu.specs.errors import RequestError
from masu.specs.text.chat_codec import Message
from masu.specs.text.tool_calls import ToolCall


def call_entries(calls: Sequence[ToolCall], messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The `tool_calls` of an assistant's message that follows `messages`.

    Ids count the calls of the conversation. They have nine letters and digits, which is what the
    templates of Mistral insist on.
    """
    before = sum(len(message.get("tool_calls", ())) for message in messages)
    return [
        {
            "id": f"call{number:05}",
            "type": "function",
            "function": {"name": call.name, "arguments": dict(call.arguments)},
        }
        for number, call in enumerate(calls, start=before)
    ]


def result_messages(messages: Sequence[Message], results: Sequence[str]) -> list[Message]:
    """The messages that answer the tool calls of the last message, in its order.

    Raises:
        RequestError: it has no calls, or another number of them; or a result is not text.
    """
    calls: Sequence[Mapping[str, Any]] = messages[-1].get("tool_calls", ()) if messages else ()
    if not calls:
        raise RequestError("the last message calls no tool: there is nothing to answer")
    if isinstance(results, str) or not all(isinstance(result, str) for result in results):
        raise RequestError("results of tools are a list of texts (JSON for values)")
    if len(results) != len(calls):
        raise RequestError(f"expected the results of {len(calls)} tool calls, found {len(results)}")
    return [
        {
            "role": "tool",
            "name": call.get("function", call).get("name"),
            "content": result,
            "tool_call_id": call.get("id"),
        }
        for call, result in zip(calls, results, strict=True)
    ]
