"""How the models of known families write tool calls; the chat template tells which way it is."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from masu.specs.errors import TextError
from masu.specs.jsonfile import read_json


class Call(NamedTuple):
    """The name of a function, and its arguments as JSON values."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class ToolStyle:
    """The marks around tool calls, and how to read what stands between them.

    Attributes:
        signs: texts that a template of this style holds, all of them.
        opening: the mark before a call.
        closing: the mark after it; empty where a call goes on to the next opening, or to the end.
        read: the calls in the text between the marks; TextError says what is wrong with it.
        bare: what a whole reply begins with that is a call without marks; empty if none may be.
    """

    signs: tuple[str, ...]
    opening: str
    closing: str
    read: Callable[[str], list[Call]]
    bare: str = ""


def _json(text: str) -> Any:
    return read_json(text.encode("utf-8", "surrogatepass"), "the call", error=TextError)


def _call(value: Any) -> Call:
    """Of `{"name": ..., "arguments": {...}}`; Llama calls the arguments `parameters`."""
    if isinstance(value, dict) and isinstance(name := value.get("name"), str):
        for key in ("arguments", "parameters"):
            if isinstance(arguments := value.get(key), dict):
                return Call(name, arguments)
    raise TextError("the call is not an object with a `name` and `arguments`")


def _json_call(body: str) -> list[Call]:
    """One JSON object."""
    return [_call(_json(body))]


_NAME_AND_OBJECT = re.compile(r"\s*([\w.-]+)(?:\[ARGS\])?\s*(\{.*)", re.DOTALL)


def _json_calls(body: str) -> list[Call]:
    """A JSON array of calls, or `name[ARGS]{...}`, as Mistral's later tokenizers have it."""
    if match := _NAME_AND_OBJECT.fullmatch(body):
        return [_call({"name": match[1], "arguments": _json(match[2])})]
    values = _json(body)
    if not isinstance(values, list):
        raise TextError("the calls are not an array")
    return [_call(value) for value in values]


_BRACES = re.compile(r"\s*call:([\w.-]+)(\{.*\})\s*", re.DOTALL)
# It begins after a character that no key holds, and never backtracks: hostile text takes no time.
_BARE_KEY = re.compile(r'(?<![^\s{}\[\],:"])([^\s{}\[\],:"]++)\s*+:')


def _braces(quote: str) -> Callable[[str], list[Call]]:
    """`call:name{key:value}`: JSON but for keys without quotes, and strings between `quote`s.

    Formats: ai.google.dev/gemma/docs/functiongemma/formatting-and-best-practices, and
    .../docs/capabilities/text/function-calling-gemma4.
    """

    def read(body: str) -> list[Call]:
        match = _BRACES.fullmatch(body)
        if match is None:
            raise TextError("the call is not of the form call:name{...}")
        parts = match[2].split(quote)
        if len(parts) % 2 == 0:
            raise TextError(f"the call has a {quote} without a partner")
        parts[::2] = [_BARE_KEY.sub(r'"\1":', part) for part in parts[::2]]
        parts[1::2] = [json.dumps(part) for part in parts[1::2]]
        return [_call({"name": match[1], "arguments": _json("".join(parts))})]

    return read


_FUNCTION = re.compile(r"\s*<function=([^>]+)>(.*)</function>\s*", re.DOTALL)
_PARAMETER = re.compile(r"\s*<parameter=([^>]+)>\n?(.*?)\n?", re.DOTALL)


def _tags(body: str) -> list[Call]:
    """`<function=name><parameter=key>value</parameter></function>`.

    Templates of this style write strings as they are and other values as JSON, so that the text
    `21` may mean either: it is read as a number.
    """
    function = _FUNCTION.fullmatch(body)
    *parts, rest = ("" if function is None else function[2]).split("</parameter>")
    pairs = [_PARAMETER.fullmatch(part) for part in parts]
    if function is None or rest.strip() or None in pairs:
        raise TextError("the call is not a <function=name> with <parameter=key> tags in it")
    arguments = {pair[1]: _value(pair[2]) for pair in pairs if pair is not None}
    if len(arguments) < len(pairs):
        raise TextError("the call gives a parameter twice")
    return [Call(function[1], arguments)]


def _value(text: str) -> Any:
    try:
        value = _json(text)
    except TextError:
        return text
    return text if isinstance(value, str) else value


STYLES: Mapping[str, ToolStyle] = {
    "function-gemma": ToolStyle(
        signs=("<start_function_call>",),
        opening="<start_function_call>",
        closing="<end_function_call>",
        read=_braces("<escape>"),
    ),
    "gemma4": ToolStyle(
        signs=("<|tool_call>",),
        opening="<|tool_call>",
        closing="<tool_call|>",
        read=_braces('<|"|>'),
    ),
    "mistral": ToolStyle(
        signs=("[TOOL_CALLS]",),
        opening="[TOOL_CALLS]",
        closing="",
        read=_json_calls,
    ),
    "qwen3.5": ToolStyle(
        signs=("<tool_call>", "<function="),
        opening="<tool_call>",
        closing="</tool_call>",
        read=_tags,
    ),
    "hermes": ToolStyle(
        signs=("<tool_call>",),
        opening="<tool_call>",
        closing="</tool_call>",
        read=_json_call,
    ),
    "llama3": ToolStyle(
        signs=('{"name": ', '"parameters": '),
        opening="<|python_tag|>",
        closing="",
        read=_json_call,
        bare="{",
    ),
}
"""By name, in the order in which a template is asked for their signs."""


def tool_style(template: str) -> ToolStyle | None:
    """The style that a chat template teaches; None for one that is not known, or for none."""
    return next(_styles_of(template), None)


def _styles_of(template: str) -> Iterator[ToolStyle]:
    return (style for style in STYLES.values() if all(sign in template for sign in style.signs))
