"""Tool calls are found in every known style, however the reply is cut; what is no call is text."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from masu.specs.text.parser import ParsedReply, ReplyParser
from masu.specs.text.reasoning import OUTPUT_PARSERS
from masu.specs.text.segment import Segment
from masu.specs.text.tool_calls import CallSplitter, ToolCall, split_calls
from masu.specs.text.tool_styles import STYLES, tool_style

CITY = '{"name": "weather", "arguments": {"city": "Kyōto"}}'
TIME = '{"name": "time", "arguments": {}}'
PARAMETERS = '{"name": "weather", "parameters": {"city": "Kyōto"}}'

CALLS: list[tuple[str, str, str, list[tuple[str, dict[str, Any]]]]] = [
    ("hermes", f"<tool_call>\n{CITY}\n</tool_call>", "", [("weather", {"city": "Kyōto"})]),
    (
        "hermes",
        f"I look.\n\n<tool_call>{CITY}</tool_call>\n<tool_call>{TIME}</tool_call>\n",
        "I look.",
        [("weather", {"city": "Kyōto"}), ("time", {})],
    ),
    ("hermes", f"<tool_call>{TIME}</tool_call> So.", "So.", [("time", {})]),
    ("hermes", f"A stop token came first: <tool_call>{TIME}", "A stop token came first:",
     [("time", {})]),
    ("llama3", PARAMETERS, "", [("weather", {"city": "Kyōto"})]),
    ("llama3", f"\n {PARAMETERS}", "", [("weather", {"city": "Kyōto"})]),
    ("llama3", f"<|python_tag|>{CITY}", "", [("weather", {"city": "Kyōto"})]),
    ("llama3", f"I look. <|python_tag|>{CITY}", "I look.", [("weather", {"city": "Kyōto"})]),
    ("llama3", f"In JSON: {PARAMETERS}", f"In JSON: {PARAMETERS}", []),
    ("mistral", f"[TOOL_CALLS] [{CITY}, {TIME}]", "",
     [("weather", {"city": "Kyōto"}), ("time", {})]),
    (
        "mistral",
        'So[TOOL_CALLS]weather[ARGS]{"city": "Kyōto"}[TOOL_CALLS]time{}',
        "So",
        [("weather", {"city": "Kyōto"}), ("time", {})],
    ),
    (
        "function-gemma",
        "<start_function_call>call:weather{city:<escape>Ky\"ō{to<escape>,days:3,at:[1.5,null],"
        "more:{so:true}}<end_function_call><start_function_call>call:time{}<end_function_call>",
        "",
        [
            ("weather", {"city": 'Ky"ō{to', "days": 3, "at": [1.5, None], "more": {"so": True}}),
            ("time", {}),
        ],
    ),
    (
        "gemma4",
        '<|tool_call>call:get-weather{city:<|"|>a: b, c<|"|>,"k":-1e3}<tool_call|>',
        "",
        [("get-weather", {"city": "a: b, c", "k": -1000.0})],
    ),
    (
        "qwen3.5",
        "<tool_call>\n<function=weather>\n<parameter=city>\nKyōto\n\nJapan\n</parameter>\n"
        "<parameter=days>\n3\n</parameter>\n<parameter=note>\n\"as it is\"\n</parameter>\n"
        '<parameter=more>\n{"so": [true]}\n</parameter>\n</function>\n</tool_call>',
        "",
        [
            (
                "weather",
                {
                    "city": "Kyōto\n\nJapan",
                    "days": 3,
                    "note": '"as it is"',
                    "more": {"so": [True]},
                },
            )
        ],
    ),
    ("qwen3.5", "<tool_call><function=time></function></tool_call>", "", [("time", {})]),
]  # fmt: skip

MALFORMED = [
    ("hermes", '<tool_call>{"name": "f", "arguments": {}</tool_call>', "JSON"),
    ("hermes", '<tool_call>{"name": "f", "arguments": {"a": NaN}}</tool_call>', "NaN"),
    ("hermes", '<tool_call>{"name": "f", "arguments": {"a": 1, "a": 2}}</tool_call>', "2 times"),
    ("hermes", '<tool_call>{"name": "f"}</tool_call>', "`name` and `arguments`"),
    ("hermes", '<tool_call>{"name": 1, "arguments": {}}</tool_call>', "`name` and `arguments`"),
    ("hermes", '<tool_call>{"name": "f", "arguments": "{}"}</tool_call>', "`arguments`"),
    ("hermes", "<tool_call>[]</tool_call>", "`name` and `arguments`"),
    ("hermes", f"<tool_call>{'[' * 5000}</tool_call>", "nested"),
    ("hermes", '<tool_call>{"name": "f", "argu', "JSON"),
    ("llama3", '{"city": "Kyoto"}', "`name` and `arguments`"),
    ("llama3", '{"name": "Ada"}', "`name` and `arguments`"),
    ("llama3", '<|python_tag|>brave_search.call(query="x")', "JSON"),
    ("mistral", "[TOOL_CALLS] {}", "array"),
    ("mistral", "[TOOL_CALLS]f[ARGS]{", "JSON"),
    ("mistral", "[TOOL_CALLS]f", "JSON"),
    ("function-gemma", "<start_function_call>f{}<end_function_call>", "form call:name"),
    ("function-gemma", "<start_function_call>call:f{a:<escape>b}<end_function_call>", "partner"),
    ("function-gemma", "<start_function_call>call:f{a:b}<end_function_call>", "JSON"),
    ("qwen3.5", "<tool_call><function=f><parameter=a>1</function></tool_call>", "<parameter=key>"),
    ("qwen3.5", "<tool_call><function=f>1</parameter></function></tool_call>", "<parameter=key>"),
    (
        "qwen3.5",
        "<tool_call><function=f><parameter=a>1</parameter><parameter=a>2</parameter></function>"
        "</tool_call>",
        "twice",
    ),
]


def streamed(splitter: CallSplitter, pieces: list[str]) -> list[Segment]:
    return [*(segment for piece in pieces for segment in splitter.feed(piece)), *splitter.finish()]


@pytest.mark.parametrize(("style", "reply", "text", "calls"), CALLS)
def test_calls_are_read_however_the_reply_is_cut(
    style: str, reply: str, text: str, calls: list[tuple[str, dict[str, Any]]]
) -> None:
    for size in (1, 2, 3, 7, len(reply)):
        splitter = CallSplitter(STYLES[style])
        pieces = [reply[at : at + size] for at in range(0, len(reply), size)]
        segments = streamed(splitter, pieces)
        assert "".join(s.text for s in segments if s.kind == "text") == text
        assert [(call.name, call.arguments) for call in splitter.calls] == calls
        assert splitter.malformed == []
        # A call is told whole, as it was written.
        told = [s.text for s in segments if s.kind == "tool_call"]
        assert list(dict.fromkeys(call.text for call in splitter.calls)) == told
        assert all(part in reply for part in told)


@pytest.mark.parametrize(("style", "reply", "problem"), MALFORMED)
def test_what_is_no_call_stays_text_and_is_said(style: str, reply: str, problem: str) -> None:
    found = split_calls(STYLES[style], f"{reply}\n")
    assert (found.text, found.calls) == (f"{reply}\n", ())
    assert len(found.malformed) == 1
    assert problem in found.malformed[0]


def test_calls_around_a_malformed_one_are_read() -> None:
    reply = (
        f"<tool_call>{CITY}</tool_call> <tool_call>no</tool_call>\n<tool_call>{TIME}</tool_call>"
    )
    found = split_calls(STYLES["hermes"], reply)
    assert [call.name for call in found.calls] == ["weather", "time"]
    assert found.text == "<tool_call>no</tool_call>"
    assert len(found.malformed) == 1


def test_nothing_certain_is_kept_back() -> None:
    splitter = CallSplitter(STYLES["hermes"])
    assert splitter.feed("Yes") == [("text", "Yes")]
    assert splitter.feed(".\n") == [("text", ".")]
    assert splitter.feed("So <tool") == [("text", "\nSo")]
    assert splitter.feed("s>") == [("text", " <tools>")]
    assert splitter.feed(f"<tool_call>{TIME}</tool_") == []
    assert splitter.feed("call>") == [("tool_call", f"<tool_call>{TIME}</tool_call>")]
    assert splitter.feed(" \n") == []
    assert splitter.feed("Done") == [("text", "Done")]
    assert splitter.finish() == []


PARTS = st.sampled_from(
    ["a", " ", "\n", "é", "{", "}", "[", "]", CITY, TIME, "call:f{a:1}", "<function=f></function>"]
    + [mark for style in STYLES.values() for mark in (style.opening, style.closing) if mark]
)


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(sorted(STYLES)),
    parts=st.lists(PARTS, max_size=8),
    cuts=st.lists(st.integers(0, 200), max_size=8),
)
def test_streaming_agrees_with_the_whole_and_drops_only_space(
    name: str, parts: list[str], cuts: list[int]
) -> None:
    reply = "".join(parts)
    edges = sorted({0, len(reply), *(cut for cut in cuts if cut < len(reply))})
    splitter = CallSplitter(STYLES[name])
    segments = streamed(splitter, [reply[a:b] for a, b in pairwise(edges)])
    whole = split_calls(STYLES[name], reply)
    assert "".join(s.text for s in segments if s.kind == "text") == whole.text
    assert tuple(splitter.calls) == whole.calls
    assert tuple(splitter.malformed) == whole.malformed
    told = "".join(segment.text for segment in segments)
    assert "".join(told.split()) == "".join(reply.split())


def test_calls_follow_a_thought() -> None:
    call = f"<tool_call>\n{CITY}\n</tool_call>"
    parser = ReplyParser(OUTPUT_PARSERS["think"], None, calls=STYLES["hermes"])
    reply = f"<think>\nhm\n</think>\n\nI look.\n{call}"
    segments = [segment for letter in reply for segment in parser.feed(letter)]
    rest, whole = parser.finish()
    kinds = [segment.kind for segment in [*segments, *rest]]
    assert list(dict.fromkeys(kinds)) == ["reasoning", "text", "tool_call"]
    found = ToolCall("weather", {"city": "Kyōto"}, call)
    assert whole == ParsedReply("\nhm\n", "I look.", (found,), ())


def test_a_thought_about_calls_calls_nothing() -> None:
    parser = ReplyParser(OUTPUT_PARSERS["think"], None, calls=STYLES["hermes"])
    parser.feed(f"<think><tool_call>{CITY}</tool_call></think>No.")
    assert parser.finish()[1] == (f"<tool_call>{CITY}</tool_call>", "No.", (), ())


def test_without_a_style_calls_are_text() -> None:
    reply = f"<tool_call>{CITY}</tool_call>"
    parser = ReplyParser(None, None)
    assert parser.feed(reply) == [("text", reply)]
    assert parser.finish()[1] == ParsedReply(None, reply)


@pytest.mark.parametrize(
    ("template", "style"),
    [
        ('{{- \'<tool_call>\\n{"name": "\' }}', "hermes"),
        ("{{- '\\n<tool_call>\\n<function=' + call.name + '>\\n' }}", "qwen3.5"),
        ("{{- '{\"name\": \"' + call.name + '\", ' }}{{- '\"parameters\": ' }}", "llama3"),
        ('{{- "[TOOL_CALLS] [" }}', "mistral"),
        ("{{ '<start_function_call>call:' + call.name + '{' }}", "function-gemma"),
        ("{{- '<|tool_call>call:' + function['name'] + '{' -}}", "gemma4"),
        ("<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>", None),
    ],
)
def test_the_template_tells_the_style(template: str, style: str | None) -> None:
    assert tool_style(template) is (None if style is None else STYLES[style])


def test_hostile_text_takes_no_time() -> None:
    for style in STYLES.values():
        for filling in ("<parameter=a>", "a", "{", "a:", "<escape>", "[ARGS]", " ", '<|"|>', '"'):
            body = f"call:f{{{filling * 50_000}}}"
            split_calls(style, f"{style.opening}{body}{style.closing}")
            body = f"<function=f>{filling * 50_000}</function>"
            split_calls(style, f"{style.opening}{body}{style.closing}")
        split_calls(style, style.opening * 20_000)
