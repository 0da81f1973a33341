"""Templates render as transformers renders them, and cannot do harm."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from golden import ENGINE_CASES, GOLDEN

from masu.specs.errors import MasuError, RequestError, TextError
from masu.specs.text.template import ChatTemplate, strip_generation_tags

STYLES = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parents[1] / "chat_templates").glob("*.jinja"))
}
"""Written for these tests, each with the idioms of a well-known model family."""

NOON = datetime(2024, 7, 26, 12, 0)
BOS, EOS = "<bos>", "<eos>"

CALL = {
    "id": "abcdefgh1",
    "function": {"name": "get", "arguments": {"city": "Zürich", "n": [1, 2.5, None]}},
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get",
            "description": 'Weather in <places> & "towns"',
            "parameters": {
                "type": "object",
                "required": ["city"],
                "properties": {
                    "city": {"type": "string", "enum": ["Zürich", "東京"], "default": "東京"},
                    "items": {"type": "array", "items": {"type": "string"}, "nullable": True},
                    "deep": {"type": "object", "properties": {"a": {"type": ["string", "null"]}}},
                    "x": {"type": "number", "default": 2.5},
                },
            },
        },
    },
    {"type": "function", "function": {"name": "now", "description": "Time"}},
]
SYSTEM = {"role": "system", "content": " Be <b>kind</b>. "}
USER = {"role": "user", "content": 'Hé, it\'s "5" & <6>?  '}
ANSWER = {"role": "assistant", "content": "\n<think>\nfive or six\n</think>\n\nFive.\n"}
AGAIN = {"role": "user", "content": "你好 🙂\n\nreally a"}
CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "user": [USER],
    "system": [SYSTEM, USER],
    "turns": [SYSTEM, USER, ANSWER, AGAIN],
    "answered": [USER, ANSWER],
    "reasoning": [
        USER,
        {"role": "assistant", "content": "5", "reasoning_content": "\nhm\n"},
        AGAIN,
    ],
    "tool": [
        USER,
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "content": '{"t": 21}', "tool_call_id": "abcdefgh1"},
    ],
    "calls": [USER, {"role": "assistant", "content": "So", "tool_calls": [CALL, CALL]}],
    "repeated": [USER, AGAIN, ANSWER, ANSWER],
    "quick": [{"role": "system", "content": "Plainly. /no_think"}, USER],
    "parts": [{"role": "user", "content": [{"type": "text", "text": " part "}]}],
    "strange": [{"role": "critic", "content": "Hm."}],
}
VARIABLES: dict[str, dict[str, Any]] = {
    "plain": {},
    "quick": {"enable_thinking": False},
    "documents": {
        "documents": [{"doc_id": 7, "text": "Snow is white."}],
        "controls": {"citations": True},
        "enable_thinking": True,
    },
}


def golden_templates() -> dict[str, str]:
    """Every template of the golden checkpoints, generation tags and all."""
    found: dict[str, str] = {}
    for folder in sorted(path for path in GOLDEN.glob("*/hf") if path.is_dir()):
        template = _template_of(folder)
        if template not in found.values():
            found[folder.parent.name] = template
    return found


def _template_of(folder: Path) -> str:
    if (folder / "chat_template.jinja").exists():
        return (folder / "chat_template.jinja").read_text()
    name = (
        "chat_template.json"
        if (folder / "chat_template.json").exists()
        else "tokenizer_config.json"
    )
    template = json.loads((folder / name).read_text())["chat_template"]
    return template if isinstance(template, str) else template[0]["template"]


TEMPLATES = {**STYLES, **{f"golden {name}": text for name, text in golden_templates().items()}}


def render_by_transformers(
    source: str, messages: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, **variables: Any
) -> str | None:
    """The rendering of transformers itself, at noon; None where it raises."""
    import transformers.utils.chat_template_utils as theirs

    class Noon(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return NOON

    monkeypatch.setattr(theirs, "datetime", Noon)
    context = {"bos_token": BOS, "eos_token": EOS, "documents": None, **variables}
    try:
        return theirs._compile_jinja_template(source).render(messages=messages, **context)
    except Exception:
        return None


@pytest.mark.parametrize("conversation", CONVERSATIONS)
@pytest.mark.parametrize("name", TEMPLATES)
def test_renders_as_transformers(
    name: str, conversation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, messages = TEMPLATES[name], CONVERSATIONS[conversation]
    template = ChatTemplate(strip_generation_tags(source), BOS, EOS, clock=lambda: NOON)
    for variables in VARIABLES.values():
        for tools in (None, TOOLS):
            for prompt in (True, False):
                expected = render_by_transformers(
                    source,
                    messages,
                    monkeypatch,
                    tools=tools,
                    add_generation_prompt=prompt,
                    **variables,
                )
                if expected is None:
                    with pytest.raises(MasuError):
                        template.render(
                            messages, tools=tools, add_generation_prompt=prompt, variables=variables
                        )
                else:
                    assert expected == template.render(
                        messages, tools=tools, add_generation_prompt=prompt, variables=variables
                    )


def test_every_style_renders_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the comparison above could compare failures only."""
    for name, source in TEMPLATES.items():
        renderings = [
            render_by_transformers(
                source, messages, monkeypatch, tools=None, add_generation_prompt=True
            )
            for messages in CONVERSATIONS.values()
        ]
        assert sum(text is not None for text in renderings) >= 4, name


@pytest.mark.parametrize("case", [c for c in ENGINE_CASES if (GOLDEN / c / "hf").is_dir()])
def test_generation_tags_are_stripped_as_in_golden_packages(case: str) -> None:
    config = json.loads((GOLDEN / case / "engine" / "config.json").read_text())
    expected = config["token_codec_config"]["prompt_template"]
    assert strip_generation_tags(_template_of(GOLDEN / case / "hf")) == expected


def test_every_spelling_of_a_generation_tag_goes() -> None:
    source = "a{% generation %}b{%- generation -%}c{%endgeneration%}d{%-  endgeneration  %}e"
    assert strip_generation_tags(source) == "abcde"
    assert (
        strip_generation_tags("{% if generation %}{% endif %}") == "{% if generation %}{% endif %}"
    )


def test_missing_special_tokens_are_undefined_not_none() -> None:
    template = ChatTemplate("[{{ bos_token }}]{{ eos_token is defined }}")
    assert template.render([USER]) == "[]False"


def test_tools_and_documents_are_none_where_there_are_none() -> None:
    assert ChatTemplate("{{ tools is none }}{{ documents is none }}").render([USER]) == "TrueTrue"


def test_line_ends_are_read_as_newlines() -> None:
    assert ChatTemplate("a\r\n{% if true %}\r\nb\rc{% endif %}\r\n").render([USER]) == "a\nb\nc"


def test_the_template_sees_copies_that_cannot_be_changed() -> None:
    messages = [dict(USER)]
    for change in (
        "messages.append(1)",
        "messages.clear()",
        "messages[0].update({'a': 1})",
        "messages[0].pop('role')",
        "messages[0].setdefault('x', 1)",
    ):
        with pytest.raises(TextError, match="changes a list or dict"):
            ChatTemplate("{{ " + change + " }}").render(messages)
    assert messages == [USER]


def test_a_refusal_of_the_template_is_about_the_request() -> None:
    template = ChatTemplate(
        "{% macro no(x) %}{{ raise_exception(x) }}{% endmacro %}{{ no('too odd') }}"
    )
    with pytest.raises(RequestError, match="refuses these messages: too odd"):
        template.render([USER])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("line\n{{ nothing.at.all }}", r"undefined value \(in chat_template:2\)"),
        ("{{ messages[0].content.rsplit(' ') }}", "no method named rsplit"),
        ("{{ messages | strange }}", "filter strange is unknown"),
        ("{% include 'other' %}", "template"),
        ("{{ messages.items() | tojson }}", "failed"),
        ("{{ strftime_now() }}", "failed: TypeError"),
    ],
)
def test_a_failing_template_names_what_failed(source: str, message: str) -> None:
    with pytest.raises(TextError, match=message):
        ChatTemplate(source).render([USER])


def test_a_template_that_does_not_compile_is_refused_at_once() -> None:
    with pytest.raises(TextError, match=r"does not compile.*chat_template:2"):
        ChatTemplate("fine\n{% if %}")


NAMESPACE = "{% set ns = namespace(s='xxxxxxxx', deep=[]) %}"


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        NAMESPACE + "{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        NAMESPACE
        + "{% for i in range(99999) %}{% set ns.deep = [ns.deep] %}{% endfor %}{{ ns.deep }}",
        "{{ ('x' * 10000000000) | length }}",
        "{% macro f(a) %}{{ f(a) }}{% endmacro %}{{ f(1) }}",
        "{{ [1] | tojson(indent=1000000000) }}",
        "{{ [1] | tojson(indent='          '*10) }}",
    ],
    ids=["loop", "doubling", "depth", "repeat", "recursion", "indent", "indent text"],
)
def test_a_runaway_template_is_stopped(source: str) -> None:
    with pytest.raises(TextError):
        ChatTemplate(source).render([USER])


@pytest.mark.parametrize(
    "source",
    [
        "{{ 1" + " ~ 1" * 50_000 + " }}",
        "{{ " + "not " * 50_000 + "1 }}",
        "{{ {'a': {'b': {}}} ~ 1" + " ~ 1" * 50_000 + " }}",
        "{% if a %}" + "{% elif a %}" * 20_000 + "{% endif %}",
        "{{ '}}' ~ \"%}\" ~ '\\'' " + "|string" * 50_000 + " }}",
        "{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}",
        "x" * 1_000_001,
    ],
    ids=["operators", "prefixes", "braces", "branches", "strings", "brackets", "length"],
)
def test_syntax_that_could_exhaust_the_stack_is_refused(source: str) -> None:
    with pytest.raises(TextError):
        ChatTemplate(source)


def test_long_text_and_comments_are_no_syntax() -> None:
    long = "it's {} %} }} - " * 5_000
    source = f"{long}{{# {'-' * 9_000} #}}{{{{ '{'- ' * 9_000}' ~ \"{'- ' * 9_000}\" }}}}"
    assert len(ChatTemplate(source).render([USER])) == len(long) + 36_000


def test_a_long_conversation_has_fuel() -> None:
    turns = [USER, ANSWER] * 300 + [{"role": "user", "content": "word " * 100_000}]
    for name, source in STYLES.items():
        text = ChatTemplate(strip_generation_tags(source), BOS, EOS).render(turns)
        assert len(text) > 500_000 or name == "loops"


def test_more_output_than_can_be_read_is_refused() -> None:
    source = "{% for i in range(8) %}{{ messages[0].content }}{% endfor %}"
    with pytest.raises(TextError, match="wrote 24,000,000 characters"):
        ChatTemplate(source).render([{"role": "user", "content": "x" * 3_000_000}])


@pytest.mark.parametrize("value", [object(), {1: 2}, {"a": b"x"}, {3.5}])
def test_only_json_values_are_rendered(value: Any) -> None:
    with pytest.raises(RequestError, match="extra"):
        ChatTemplate("x").render([USER], variables={"extra": value})


def test_values_nested_without_end_are_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(RequestError, match="nested"):
        ChatTemplate("x").render([USER], variables={"extra": value})


def test_variables_cannot_replace_the_conversation() -> None:
    with pytest.raises(RequestError, match="messages"):
        ChatTemplate("x").render([USER], variables={"messages": []})


def test_half_a_surrogate_pair_is_refused_not_replaced() -> None:
    with pytest.raises(RequestError, match="Unicode"):
        ChatTemplate("{{ messages[0].content }}").render([{"role": "user", "content": "a\ud83d"}])
