"""Makes the text test vectors of a package, and says which no longer hold."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from masu.specs.codec import ChatCodecConfig
from masu.specs.errors import IntegrityError, MasuError
from masu.specs.model import LanguageModelConfig, ModelConfig, SpeculatorModelConfig
from masu.specs.package import Package
from masu.specs.text.chat_codec import ChatCodec
from masu.specs.text.reasoning import reply_format
from masu.specs.text.tokenizer import PackageTokenizer
from masu.specs.text_vectors import ChatVector, ReplyVector, StopVector, TextVector, TokenVector

CLOCK = datetime(2026, 1, 31, 12, 30)
"""The time that templates are told."""

TEXTS = {
    "sentence": "Hello, world! It's 20 past 7.",
    "code": "def f(x):\n    return x[0] +  1\n\t# tab",
    "scripts": "naïve café — Größe, Привет, 你好世界, مرحبا, 日本語",
    "symbols": '🙂👩‍💻 ½ ± 3.14159e-10 <tag> {"k": null}',
    "numbers": "0 42 1234567890 1,000,000",
    "space": "  two before, two after  ",
}

SAMPLED = 400
"""Tokens of the vocabulary that a text of its own is made of."""

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather at a place.",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string", "description": "A town."}},
            "required": ["place"],
        },
    },
}
_SYSTEM = {"role": "system", "content": "You are terse."}
_ASKED = {"role": "user", "content": "What is 2 + 2?"}
_SAID = {"role": "assistant", "content": "4."}
_THEN = {"role": "user", "content": "And 3 + 3?"}

CHATS: dict[str, tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]] = {
    "user": ([_ASKED], ()),
    "system": ([_SYSTEM, _ASKED], ()),
    "several turns": ([_ASKED, _SAID, _THEN], ()),
    "tools": ([_SYSTEM, {"role": "user", "content": "Is it raining in Oslo?"}], (TOOL,)),
}
"""Messages and tools."""

SWITCHES = ("enable_thinking", "thinking")
"""Variables by which templates are told whether to think."""


@dataclass(frozen=True)
class Broken:
    """A vector that does not hold."""

    vector: TextVector
    problem: str

    def __str__(self) -> str:
        return f"text vector {self.vector.kind} {self.vector.name!r}: {self.problem}"


def record_vectors(
    config: ModelConfig, tokenizer: PackageTokenizer, origins: Mapping[int, Sequence[str]]
) -> tuple[TextVector, ...]:
    """The vectors of a package that holds these.

    Args:
        origins: the files that name each stop id, as far as that is known.
    """
    if isinstance(config, SpeculatorModelConfig):
        return ()
    text = _Text(config, tokenizer)
    return (
        *text.tokens(),
        *text.stops(origins),
        *(text.chats() if text.codec is not None else ()),
        *(text.replies() if text.codec is not None else ()),
    )


def broken_vectors(
    vectors: Sequence[TextVector], config: ModelConfig, tokenizer: PackageTokenizer
) -> Iterator[Broken]:
    """Every vector that the config and the tokenizer no longer give, with what is another."""
    if isinstance(config, SpeculatorModelConfig):
        return
    text = _Text(config, tokenizer)
    for vector in vectors:
        problem = text.problem(vector)
        if problem is not None:
            yield Broken(vector, problem)
    yield from _unknown_stops(vectors, text)


def check_vectors(package: Package, tokenizer: PackageTokenizer) -> None:
    """That the package still makes of text what it did when it was converted; milliseconds.

    Raises:
        IntegrityError: names every vector that no longer holds.
    """
    if package.manifest is None:
        return
    problems = [
        str(broken)
        for broken in broken_vectors(package.manifest.text_vectors, package.config, tokenizer)
    ]
    if problems:
        raise IntegrityError(
            f"{package.path} makes something else of text than when it was converted",
            problems=problems,
            hint="its tokenizer, template, parser or stop tokens were changed",
        )


class _Text:
    """What a package makes of texts, by a clock that stands."""

    def __init__(self, config: Any, tokenizer: PackageTokenizer) -> None:
        codec = config.token_codec_config
        self.tokenizer = tokenizer
        self.config = codec if isinstance(codec, ChatCodecConfig) else None
        self.codec = None if self.config is None else ChatCodec(self.config, lambda: CLOCK)
        is_language_model = isinstance(config, LanguageModelConfig)
        self.stop_ids = config.generation_config.stop_token_ids if is_language_model else ()

    def tokens(self) -> Iterator[TokenVector]:
        for name, text in {**TEXTS, "vocabulary": self._vocabulary()}.items():
            yield self.token_vector(name, text)

    def _vocabulary(self) -> str:
        """Tokens from all over the vocabulary, one after the other."""
        step = -(-self.tokenizer.size // SAMPLED)
        ids = set(range(0, self.tokenizer.size, step)) - self.tokenizer.special_ids
        texts = (self.tokenizer.decode([token]) for token in sorted(ids))
        return "".join(text for text in texts if "\ufffd" not in text)

    def token_vector(self, name: str, text: str) -> TokenVector:
        ids, begun = self.tokenizer.encode(text), self.tokenizer.encode_prompt(text)
        return TokenVector(kind="tokens", name=name, text=text, ids=tuple(ids), begun=tuple(begun))

    def stops(self, origins: Mapping[int, Sequence[str]]) -> Iterator[StopVector]:
        for token in self.stop_ids:
            yield StopVector(
                kind="stop",
                name=str(token),
                id=token,
                token=self.tokenizer.token(token) if token < 2**32 else None,
                origins=tuple(origins.get(token, ())),
            )

    def chats(self) -> Iterator[ChatVector]:
        for name, (messages, tools) in CHATS.items():
            yield self.chat_vector(name, messages, tools, {})
        for name, variables in self._thinking():
            yield self.chat_vector(name, [_ASKED], (), variables)

    def _thinking(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """A name and variables for each way in which the template can be told how to think."""
        assert self.config is not None
        reasoning = self.config.reasoning_config
        efforts = {} if reasoning is None else reasoning.reasoning_effort_to_field_value
        for effort, value in efforts.items():
            assert reasoning is not None
            yield f"reasoning effort {effort}", {reasoning.field_name: value}
        for switch in SWITCHES:
            told = reasoning is not None and reasoning.field_name == switch
            if not told and re.search(rf"\b{switch}\b", self.config.prompt_template):
                yield f"{switch} on", {switch: True}
                yield f"{switch} off", {switch: False}

    def chat_vector(
        self,
        name: str,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        variables: Mapping[str, Any],
    ) -> ChatVector:
        assert self.codec is not None
        # In the order in which the manifest will have the keys: templates print objects.
        messages, tools = _in_order(messages), _in_order(tools)
        try:
            prompt = self.codec.render(messages, tools=tools, variables=variables)
        except MasuError:  # a system message, say, or tools that it has no place for
            prompt = None
        return ChatVector(
            kind="chat",
            name=name,
            messages=messages,
            tools=tools,
            variables=dict(variables),
            prompt=prompt,
            ids=() if prompt is None else tuple(self.tokenizer.encode(prompt)),
        )

    def replies(self) -> Iterator[ReplyVector]:
        assert self.config is not None
        form = reply_format(self.config.output_parser_regex, self.config.end_of_thinking_tag)
        yield self.reply_vector("plain", "The answer is 4.")
        if form.thought_opening:
            thought = f"{form.thought_opening}\nTwo and two.\n{form.thought_closing}"
            opening = form.text_openings[0] if form.text_openings else ""
            closing = form.text_closings[0] if form.text_closings else ""
            yield self.reply_vector("thought", f"{thought}\n\n{opening}The answer is 4.{closing}")
            yield self.reply_vector("unfinished thought", f"{form.thought_opening}\nTwo and")

    def reply_vector(self, name: str, reply: str) -> ReplyVector:
        assert self.codec is not None
        parser = self.codec.parser("")
        parser.feed(reply)
        _, parsed = parser.finish()
        return ReplyVector(
            kind="reply", name=name, reply=reply, reasoning=parsed.reasoning, answer=parsed.text
        )

    def problem(self, vector: TextVector) -> str | None:
        """What is another now; None if it holds."""
        if isinstance(vector, TokenVector):
            return _difference(vector, self.token_vector(vector.name, vector.text))
        if isinstance(vector, StopVector):
            if vector.id not in self.stop_ids:
                return f"{vector.id} is no stop token any more"
            spelling = self.tokenizer.token(vector.id) if vector.id < 2**32 else None
            return _difference(vector, vector.model_copy(update={"token": spelling}))
        if self.codec is None:
            return "the package knows no conversations any more"
        if isinstance(vector, ReplyVector):
            return _difference(vector, self.reply_vector(vector.name, vector.reply))
        now = self.chat_vector(vector.name, vector.messages, vector.tools, vector.variables)
        return _difference(vector, now)


def _in_order(values: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """The same objects, all keys sorted."""
    return tuple(json.loads(json.dumps(dict(value), sort_keys=True)) for value in values)


def _unknown_stops(vectors: Sequence[TextVector], text: _Text) -> Iterator[Broken]:
    """Stop tokens that are new; packages without vectors have nothing to compare."""
    known = {vector.id for vector in vectors if isinstance(vector, StopVector)}
    for token in text.stop_ids if vectors else ():
        if token not in known:
            new = StopVector(kind="stop", name=str(token), id=token, token=None, origins=())
            yield Broken(new, f"{token} is a stop token, and was none")


def _difference(recorded: TextVector, now: TextVector) -> str | None:
    before, after = recorded.model_dump(), now.model_dump()
    for key in before:
        if before[key] != after[key]:
            return f"{key}: expected {_shown(before[key])}, found {_shown(after[key])}"
    return None


def _shown(value: Any) -> str:
    text = repr(list(value)) if isinstance(value, tuple) else repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
