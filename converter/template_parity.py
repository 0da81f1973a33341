"""Whether masu's renderer gives a chat template the text that transformers gives it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from masu.specs.errors import MasuError, TextError
from masu.specs.text.template import ChatTemplate, strip_generation_tags

_STRING = re.compile(r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+\"""", re.DOTALL)
_CODE = re.compile(rf"\{{#.*?#\}}|\{{[{{%]((?:{_STRING.pattern}|.)*?)[%}}]\}}", re.DOTALL)
_OF_LOOPS = {"cycle", "changed"}

_SYSTEM = {"role": "system", "content": "Be <b>kind</b> & brief."}
_USER = {"role": "user", "content": 'What is 2 + 3?\nIt\'s "easy".'}
_ANSWER = {"role": "assistant", "content": "<think>\n2 + 3\n</think>\n\nFive."}
_AGAIN = {"role": "user", "content": "Größer als 4? 🙂"}
_CALL = {"type": "function", "function": {"name": "get", "arguments": {"city": "Zürich", "n": 2}}}
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get",
            "description": "Weather in a <place>",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]


@dataclass(frozen=True)
class Probe:
    """A conversation to render.

    Attributes:
        variables: beside those that every template is given.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] | None
    variables: Mapping[str, Any]
    add_generation_prompt: bool


@dataclass(frozen=True)
class Difference:
    """A probe that the two renderers answer differently.

    Attributes:
        expected: transformers' text; None where it refuses the messages.
        found: masu's text, or its error.
    """

    probe: str
    expected: str | None
    found: str | MasuError

    def __str__(self) -> str:
        if isinstance(self.found, MasuError):
            return f"{self.probe}: {self.found.message}"
        if self.expected is None:
            return f"{self.probe}: transformers refuses what masu renders"
        place = next(
            (i for i, (a, b) in enumerate(zip(self.expected, self.found, strict=False)) if a != b),
            min(len(self.expected), len(self.found)),
        )
        expected, found = (t[place : place + 30] for t in (self.expected, self.found))
        return f"{self.probe}: at character {place} expected {expected!r}, found {found!r}"


_CONVERSATIONS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "one message": [_USER],
    "a system message": [_SYSTEM, _USER],
    "several turns": [_SYSTEM, _USER, _ANSWER, _AGAIN],
    "an answer": [_USER, _ANSWER],
    "a tool's answer": [
        _USER,
        {"role": "assistant", "content": "", "tool_calls": [_CALL]},
        {"role": "tool", "name": "get", "content": '{"t": 21}'},
    ],
}

PROBES: Mapping[str, Probe] = {
    f"{name}{extra}{' and an open turn' if opened else ''}": Probe(
        messages, tools, variables, opened
    )
    for name, messages in _CONVERSATIONS.items()
    for extra, tools, variables in (
        ("", None, {}),
        (" with tools", _TOOLS, {}),
        (" with thinking on", None, {"enable_thinking": True}),
        (" with thinking off", None, {"enable_thinking": False}),
    )
    for opened in (True, False)
}
"""System message or none, several turns, tools, thinking on and off."""


def rendering_differences(
    template: str,
    bos_token: str | None,
    eos_token: str | None,
    probes: Mapping[str, Probe] = PROBES,
) -> list[Difference] | None:
    """Each probe that is not rendered as transformers renders it; torch is not needed.

    A probe that both refuse is no difference.

    Args:
        template: as the checkpoint has it, generation tags and all.

    Returns:
        None where transformers is not installed.

    Raises:
        TextError: the template does not compile in masu.
    """
    if find_spec("transformers") is None or find_spec("jinja2") is None:
        return None
    ours = ChatTemplate(strip_generation_tags(template), bos_token, eos_token)
    special = {"bos_token": bos_token, "eos_token": eos_token}
    given = {name: token for name, token in special.items() if token is not None}
    return [d for name, probe in probes.items() if (d := _difference(name, probe, ours, template,
                                                                   given)) is not None]  # fmt: skip


def unsupported_constructs(template: str) -> list[str]:
    """Filters and methods in a template that its renderer does not know, whether probed or not."""
    code = " ".join(_STRING.sub("''", found[1]) for found in _CODE.finditer(template) if found[1])
    return [*_unknown_filters(code), *_unknown_methods(code)]


def _unknown_filters(code: str) -> Iterator[str]:
    for name in sorted(set(re.findall(r"\|\s*(\w+)", code))):
        if "is unknown" in _failure("{{ 'x'|" + name + " }}"):
            yield f"the filter {name}"


def _unknown_methods(code: str) -> Iterator[str]:
    """A method is known if text, a list, a dict or a value of the conversation has it."""
    receivers = ("'x'", "[]", "{}", "messages", "messages[0]")
    for name in sorted(set(re.findall(r"\.\s*(\w+)\s*\(", code)) - _OF_LOOPS):
        said = [_failure("{{ " + receiver + "." + name + "() }}") for receiver in receivers]
        if all("no method named" in message or "no attribute" in message for message in said):
            yield f"the method {name}"


def _failure(source: str) -> str:
    """What goes wrong with a snippet; empty if nothing does."""
    try:
        ChatTemplate(source).render([_USER])
    except MasuError as error:
        return error.message
    return ""


def _difference(
    name: str, probe: Probe, ours: ChatTemplate, template: str, special: Mapping[str, str]
) -> Difference | None:
    expected = _by_transformers(template, probe, special)
    try:
        found: str | MasuError = ours.render(
            probe.messages,
            add_generation_prompt=probe.add_generation_prompt,
            tools=probe.tools,
            variables=probe.variables,
        )
    except MasuError as error:
        if expected is None:
            return None
        found = error
    return None if found == expected else Difference(name, expected, found)


def _by_transformers(template: str, probe: Probe, special: Mapping[str, str]) -> str | None:
    from jinja2 import TemplateError
    from transformers.utils.chat_template_utils import render_jinja_template

    tools: Any = None if probe.tools is None else list(probe.tools)
    conversations: Any = [list(probe.messages)]
    try:
        rendered, _ = render_jinja_template(
            conversations=conversations,
            tools=tools,
            chat_template=template,
            add_generation_prompt=probe.add_generation_prompt,
            **special,
            **probe.variables,
        )
    except (TemplateError, TypeError, ValueError, KeyError, AttributeError):
        return None  # what a template raises, or the Python code that it calls
    return rendered[0]


def refuse_differences(
    template: str, bos_token: str | None, eos_token: str | None, where: str
) -> bool:
    """Raise TextError, which names each construct or probe, if the two renderers disagree.

    Args:
        where: the checkpoint, as messages call it.

    Returns:
        Whether they were compared: without transformers, only constructs that the renderer does
        not know are found.
    """
    problems, compared = unsupported_constructs(template), True
    if not problems:
        found = rendering_differences(template, bos_token, eos_token)
        compared = found is not None
        problems = [str(difference) for difference in found or ()]
    if problems:
        raise TextError(
            f"{where}: the chat template cannot be rendered as transformers renders it",
            problems=problems,
            hint="give the model's entry a chat_template of its own without these",
        )
    return compared
