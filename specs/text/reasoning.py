"""How the replies of known families are written: where thinking ends and the answer begins."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


def _literal(text: str) -> str:
    """The text as a pattern, escaped no more than every engine of regular expressions needs."""
    return re.sub(r"[\\^$.|?*+()\[\]{}]", r"\\\g<0>", text).replace("\n", r"\n")


def _any(texts: Sequence[str]) -> str:
    return "|".join(map(_literal, texts))


@dataclass(frozen=True)
class ReplyFormat:
    """The marks around the parts of a reply, all of them optional in it; empty marks do not occur.

    Attributes:
        thought_opening, thought_closing: around the reasoning; white space after it is dropped.
        text_openings: dropped from the beginning of the answer.
        text_closings: the answer ends before the first of them.
    """

    thought_opening: str
    thought_closing: str
    text_openings: tuple[str, ...] = ()
    text_closings: tuple[str, ...] = ()

    def pattern(self) -> str:
        """A pattern for the start of a reply, with the groups `chain_of_thought` and `response`."""
        opening, closing = _literal(self.thought_opening), _literal(self.thought_closing)
        thought = rf"(?:{opening}(?P<chain_of_thought>.*?)(?:{closing}\s*|\Z))?"
        prefix = f"(?:{_any(self.text_openings)})?" if self.text_openings else ""
        end = f"(?:{_any(self.text_closings)}|\\Z)" if self.text_closings else r"\Z"
        return f"(?s){thought}{prefix}(?P<response>.*?){end}"


PLAIN = ReplyFormat("", "")
THINK = ReplyFormat("<think>", "</think>")
GEMMA4 = ReplyFormat(
    "<|channel>thought\n", "<channel|>", text_closings=("<turn|>", "<|tool_response>")
)
GRANITE_THINK = ReplyFormat(
    "<think>", "</think>", text_openings=("<response>",), text_closings=("</response>",)
)
HARMONY = ReplyFormat(
    "<|channel|>analysis<|message|>",
    "<|end|>",
    text_openings=(
        "<|start|>assistant<|channel|>final<|message|>",
        "<|channel|>final<|message|>",
    ),
    text_closings=("<|return|>", "<|end|>"),
)
MUSE = ReplyFormat(
    " to=self<|message|>",
    "<|eom|>",
    text_openings=("<|start|>assistant to=user<|message|>", " to=user<|message|>"),
    text_closings=("<|eot|>", "<|end_of_text|>"),
)

THINK_PATTERN = (
    r"(?s)(?=(<think>|.*?</think>)?)"
    r"(?(1)(?:<think>)?(?P<chain_of_thought>.*?)(?:</think>\s*|\Z))(?P<response>.*)\Z"
)
"""The pattern of lalamo 0.17.0, byte for byte. A closing tag anywhere makes all before it
reasoning: many templates end the prompt with the opening tag."""

FORMATS: Mapping[str, ReplyFormat] = {
    "think": THINK,
    "gemma4": GEMMA4,
    "granite-think": GRANITE_THINK,
    "harmony": HARMONY,
    "muse": MUSE,
}

OUTPUT_PARSERS: Mapping[str, str] = {
    **{name: known.pattern() for name, known in FORMATS.items()},
    "think": THINK_PATTERN,
}
"""`output_parser_regex` by the name that a model's entry gives."""

_CLOSING_TAG = re.compile(r"\s*</(\w+)>\s*")


def reply_format(pattern: str | None, end_of_thinking_tag: str | None) -> ReplyFormat:
    """The marks to look for while a reply streams.

    By the package's pattern where it is one of ours; otherwise an end tag `</x>` tells its opening.
    Where neither helps, nothing is looked for and all is text.
    """
    for name, known in OUTPUT_PARSERS.items():
        if pattern == known:
            return FORMATS[name]
    tag = _CLOSING_TAG.fullmatch(end_of_thinking_tag or "")
    return PLAIN if tag is None else ReplyFormat(f"<{tag.group(1)}>", f"</{tag.group(1)}>")
