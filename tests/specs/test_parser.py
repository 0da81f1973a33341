"""Replies fall into reasoning and answer, in one piece or in many."""

import json
import re
from itertools import pairwise

import pytest
from golden import GOLDEN
from hypothesis import given, settings
from hypothesis import strategies as st

from masu.specs.errors import TextError
from masu.specs.text.parser import ParsedReply, ReplyParser, compile_pattern, parse_reply
from masu.specs.text.reasoning import FORMATS, OUTPUT_PARSERS, THINK_PATTERN

THINK_TAG = "\n</think>"
HARMONY_END = "<|end|><|start|>assistant<|channel|>final<|message|>"

REPLIES = [
    ("think", "<think>\nhm\n</think>\n\nYes.", ParsedReply("\nhm\n", "Yes.")),
    ("think", "hm</think> Yes.", ParsedReply("hm", "Yes.")),
    ("think", "Yes.", ParsedReply(None, "Yes.")),
    ("think", "<think>never ends", ParsedReply("never ends", "")),
    ("think", "<think></think>", ParsedReply("", "")),
    ("think", "", ParsedReply(None, "")),
    ("think", "a <think> later", ParsedReply(None, "a <think> later")),
    ("think", "<think>a</think>b</think>c", ParsedReply("a", "b</think>c")),
    ("gemma4", "<|channel>thought\nhm<channel|>Yes.<turn|>\n", ParsedReply("hm", "Yes.")),
    ("gemma4", "<|channel>thought\nnever ends", ParsedReply("never ends", "")),
    ("gemma4", "Yes.<|tool_response>x", ParsedReply(None, "Yes.")),
    ("gemma4", "Yes.", ParsedReply(None, "Yes.")),
    ("granite-think", "<think>hm</think>\n<response>Yes.</response>", ParsedReply("hm", "Yes.")),
    ("granite-think", "<think>hm</think>Yes.", ParsedReply("hm", "Yes.")),
    ("granite-think", "hm</think>Yes.", ParsedReply(None, "hm</think>Yes.")),
    ("harmony", f"<|channel|>analysis<|message|>hm{HARMONY_END}Yes.", ParsedReply("hm", "Yes.")),
    ("harmony", "<|channel|>final<|message|>Yes.<|return|>", ParsedReply(None, "Yes.")),
    ("harmony", "Yes.", ParsedReply(None, "Yes.")),
    (
        "muse",
        " to=self<|message|>hm<|eom|><|start|>assistant to=user<|message|>Yes.<|eot|>",
        ParsedReply("hm", "Yes."),
    ),
    ("muse", " to=user<|message|>Yes.<|end_of_text|>", ParsedReply(None, "Yes.")),
]


def stream(parser: ReplyParser, pieces: list[str], stop: str = "") -> tuple[str, str, ParsedReply]:
    """Streamed reasoning, streamed text, and the whole."""
    segments = [segment for piece in pieces for segment in parser.feed(piece)]
    rest, whole = parser.finish(stop)
    told = {"reasoning": "", "text": ""}
    for segment in [*segments, *rest]:
        assert segment.text
        told[segment.kind] += segment.text
    return told["reasoning"], told["text"], whole


@pytest.mark.parametrize(("name", "reply", "expected"), REPLIES)
def test_patterns_split_replies(name: str, reply: str, expected: ParsedReply) -> None:
    assert parse_reply(OUTPUT_PARSERS[name], reply) == expected


UNOPENED = ("think", "hm</think> Yes.", ParsedReply("hm", "Yes."))
"""That a thought was open without a tag, only the prompt can tell while the reply streams."""


@pytest.mark.parametrize(
    ("name", "reply", "expected"), [case for case in REPLIES if case != UNOPENED]
)
def test_streaming_agrees_however_the_reply_is_cut(
    name: str, reply: str, expected: ParsedReply
) -> None:
    for size in (1, 2, 3, 5, 1000):
        pieces = [reply[at : at + size] for at in range(0, len(reply), size)]
        reasoning, text, whole = stream(ReplyParser(OUTPUT_PARSERS[name], None), pieces)
        assert (reasoning, text) == (expected.reasoning or "", expected.text)
        assert whole == expected


MARKS = sorted(
    {
        mark
        for f in FORMATS.values()
        for mark in (f.thought_opening, f.thought_closing, *f.text_openings, *f.text_closings)
    }
)


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(sorted(FORMATS)),
    parts=st.lists(st.sampled_from(["a", " ", "\n", "<", "</", "é", *MARKS]), max_size=7),
    cuts=st.lists(st.integers(0, 60), max_size=6),
)
def test_streaming_agrees_with_the_pattern_on_any_text(
    name: str, parts: list[str], cuts: list[int]
) -> None:
    reply = "".join(parts)
    if name == "think" and "</think>" in reply and not reply.startswith("<think>"):
        return  # see UNOPENED
    edges = sorted({0, len(reply), *(cut for cut in cuts if cut < len(reply))})
    pieces = [reply[a:b] for a, b in pairwise(edges)]
    reasoning, text, whole = stream(ReplyParser(OUTPUT_PARSERS[name], None), pieces)
    assert whole == parse_reply(OUTPUT_PARSERS[name], reply)
    assert (reasoning, text) == (whole.reasoning or "", whole.text)


def test_what_was_told_is_not_taken_back_but_the_whole_is_right() -> None:
    _, reply, expected = UNOPENED
    assert stream(ReplyParser(THINK_PATTERN, THINK_TAG), [reply]) == ("", reply, expected)


def test_nothing_certain_is_kept_back() -> None:
    parser = ReplyParser(THINK_PATTERN, THINK_TAG)
    assert parser.feed("<thi") == []
    assert parser.feed("nk>so") == [("reasoning", "so")]
    assert parser.feed(" on </thi") == [("reasoning", " on ")]
    assert parser.feed("s</think") == [("reasoning", "</this")]
    assert parser.feed(">\n\n") == []
    assert parser.feed("Yes") == [("text", "Yes")]
    assert parser.feed(" <") == [("text", " <")]


@pytest.mark.parametrize("end", ["<think>", "<think>\n"])
def test_a_prompt_can_open_the_thought(end: str) -> None:
    prompt = f"<|im_start|>assistant\n{end}"
    parser = ReplyParser(THINK_PATTERN, THINK_TAG, prompt)
    assert parser.opened
    assert stream(parser, ["hm</th", "ink>Yes."]) == ("hm", "Yes.", ParsedReply("hm", "Yes."))


def test_a_thought_that_the_prompt_opened_may_never_close() -> None:
    parser = ReplyParser(THINK_PATTERN, THINK_TAG, "assistant\n<think>\n")
    assert stream(parser, ["so", " long"]) == ("so long", "", ParsedReply("so long", ""))


def test_a_thought_that_the_prompt_closed_is_not_open() -> None:
    parser = ReplyParser(THINK_PATTERN, THINK_TAG, "assistant\n<think>\n\n</think>\n\n")
    assert stream(parser, ["Yes."]) == ("", "Yes.", ParsedReply(None, "Yes."))


def test_a_tag_alone_tells_where_thinking_ends() -> None:
    parser = ReplyParser(None, "\n</reason>", "<reason>")
    assert stream(parser, ["hm\n</reason>\nYes"]) == ("hm\n", "Yes", ParsedReply("hm\n", "Yes"))
    assert stream(ReplyParser(None, "\n</reason>"), ["<reason>a"])[0] == "a"


def test_without_pattern_and_tag_all_is_text() -> None:
    reply = "<think>a</think>b"
    assert stream(ReplyParser(None, None, "<think>"), [reply]) == (
        "",
        reply,
        ParsedReply(None, reply),
    )


def test_a_pattern_may_insist_on_the_stop_token() -> None:
    pattern, yes = r"(?s)(?P<response>.*)<\|eot\|>", ParsedReply(None, "Yes.")
    assert stream(ReplyParser(pattern, None), ["Yes."], stop="<|eot|>")[2] == yes
    assert stream(ReplyParser(pattern, None), ["Yes."])[2] == yes  # no match: all of it


def test_the_pattern_is_matched_at_the_start_only() -> None:
    assert parse_reply(r"Answer: (?P<response>\w+)", "Answer: yes!").text == "yes"
    assert parse_reply(r"Answer: (?P<response>\w+)", "An Answer: yes!").text == "An Answer: yes!"


def test_a_group_that_takes_no_part_is_empty_text() -> None:
    assert parse_reply(r"(?P<chain_of_thought>hm)|(?P<response>yes)", "hm")[:2] == ("hm", "")


@pytest.mark.parametrize(
    "pattern", ["(", "(.*)", "(?P<chain_of_thought>.*)", "(?P<response>.*)(?P<tool>.*)"]
)
def test_unusable_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(TextError, match="output_parser_regex"):
        compile_pattern(pattern)


@pytest.mark.parametrize("case", ["qwen3", "smollm3"])
def test_the_think_pattern_is_that_of_the_golden_packages(case: str) -> None:
    config = json.loads((GOLDEN / case / "engine" / "config.json").read_text())
    assert config["token_codec_config"]["output_parser_regex"] == THINK_PATTERN


def test_hostile_text_takes_no_time() -> None:
    for pattern in OUTPUT_PARSERS.values():
        assert re.match(pattern, "<think>" + "<|end|>" * 20_000 + "</think>" * 20_000)
