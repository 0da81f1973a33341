"""A conversation with a model: turn by turn, streamed, and not run twice where it can go on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from masu.runtime.generate import Ending, FinishReason, Token, generate
from masu.runtime.sampling import Sampling
from masu.runtime.token_run import TokenModel, TokenRun
from masu.runtime.tool_messages import call_entries, result_messages
from masu.specs.codec import ReasoningEffort
from masu.specs.text.chat_codec import ChatCodec, Message, Tool
from masu.specs.text.parser import ParsedReply, ReplyParser
from masu.specs.text.segment import Segment
from masu.specs.text.tokenizer import PackageTokenizer
from masu.specs.text.tool_calls import ToolCall


@dataclass(frozen=True)
class Usage:
    """Tokens of one turn.

    Attributes:
        prompt_tokens: of the whole conversation up to the reply.
        reused_tokens: of these, run in an earlier turn.
        reply_tokens: generated, the stop token included.
    """

    prompt_tokens: int
    reused_tokens: int
    reply_tokens: int


@dataclass(frozen=True)
class Reply:
    """A whole turn of the assistant.

    Attributes:
        reasoning: what it thought before, None if it did not.
        text: the answer, without the tool calls in it.
        tool_calls: functions that it wants called; `Chat.answer_tools` goes on from there.
        malformed_calls: what is wrong with each stretch that was marked as a call and cannot be
            read as one; it stayed in the text.
        tokens: as they were generated, with their log-probabilities if those were asked for.
        seed: with which the same conversation is answered in the same way.
    """

    reasoning: str | None
    text: str
    tool_calls: tuple[ToolCall, ...]
    malformed_calls: tuple[str, ...]
    finish_reason: FinishReason
    usage: Usage
    tokens: tuple[Token, ...]
    seed: int | None


class TurnOptions(TypedDict, total=False):
    """How one reply is generated.

    Attributes:
        sampling: for this turn; None takes the chat's.
        max_tokens: None for as many as the context holds.
        stop: texts before which the reply ends.
        logprobs: of every token of the reply.
    """

    sampling: Sampling | None
    max_tokens: int | None
    stop: Sequence[str]
    logprobs: bool


@dataclass(frozen=True)
class ChatParts:
    """What a chat is made of; `LanguageModel.chat` puts it together.

    Attributes:
        lengths: of runs, see `token_run.boundaries`.
    """

    model: TokenModel
    tokenizer: PackageTokenizer
    codec: ChatCodec
    sampling: Sampling
    stop_ids: tuple[int, ...]
    lengths: tuple[int, ...] = ()


class Chat:
    """Keeps the messages, and the model's state between turns.

    A turn that is not played to its end leaves the conversation as it was before.

    Args:
        system: a system message; None leaves it to the package's default.
        reasoning_effort: for every turn; None takes the package's default.
        tools: that the model may call in any turn. Without them no reply is searched for calls.

    Attributes:
        messages: `{"role", "content"[, "reasoning_content"][, "tool_calls"]}` of all turns so far;
            may be edited.

    Raises:
        RequestError: the model knows no such effort.
    """

    def __init__(
        self,
        parts: ChatParts,
        *,
        system: str | None = None,
        reasoning_effort: ReasoningEffort | None = None,
        tools: Sequence[Tool] = (),
    ) -> None:
        self._parts = parts
        self._effort: ReasoningEffort | None = reasoning_effort
        self._tools = tuple(tools)
        self._run = TokenRun(parts.model, parts.lengths)
        self.messages: list[Message] = []
        if system is not None:
            self.messages.append({"role": "system", "content": system})
        parts.codec.check_effort(reasoning_effort)

    def send(self, text: str, **options: Unpack[TurnOptions]) -> Reply:
        """The reply to a message; errors as for `stream`."""
        return _last(self.stream(text, **options))

    def stream(self, text: str, **options: Unpack[TurnOptions]) -> Iterator[Segment | Reply]:
        """The reply in segments of reasoning, text and tool calls as they become certain, then as
        a whole.

        Raises:
            RequestError: at once: the conversation does not fit, or the template refuses it or
                has no place for tools.
            TextError: the template fails.
        """
        return self._begin([{"role": "user", "content": text}], options)

    def answer_tools(self, results: Sequence[str], **options: Unpack[TurnOptions]) -> Reply:
        """The reply to the results of the last reply's tool calls; errors as for `stream_tools`."""
        return _last(self.stream_tools(results, **options))

    def stream_tools(
        self, results: Sequence[str], **options: Unpack[TurnOptions]
    ) -> Iterator[Segment | Reply]:
        """As `stream`, after the model has called tools.

        Args:
            results: one text for each call, in their order.

        Raises:
            RequestError: as for `stream`; or these are not the results of the last message's calls.
            TextError: the template fails.
        """
        return self._begin(result_messages(self.messages, results), options)

    def _begin(self, asked: list[Message], options: TurnOptions) -> Iterator[Segment | Reply]:
        parts = self._parts
        prompt = parts.codec.render(
            [*self.messages, *asked], reasoning_effort=self._effort, tools=self._tools
        )
        ids = parts.tokenizer.encode(prompt)
        sampling = (options.get("sampling") or parts.sampling).seeded()
        ending = Ending(
            max_tokens=options.get("max_tokens"),
            stop_ids=parts.stop_ids,
            stop_strings=options.get("stop", ()),
        )
        tokens = generate(
            parts.model,
            ids,
            sampling,
            ending,
            tokenizer=parts.tokenizer,
            skip_special=not (parts.codec.reads_markers or self._tools),
            logprobs=options.get("logprobs", False),
            run=self._run,
        )
        parser = parts.codec.parser(prompt, calls=bool(self._tools))
        return self._turn(tokens, parser, asked, len(ids), sampling.seed)

    def _turn(
        self,
        tokens: Iterator[Token],
        parser: ReplyParser,
        asked: list[Message],
        prompt_tokens: int,
        seed: int | None,
    ) -> Iterator[Segment | Reply]:
        told: list[Token] = []
        for token in tokens:
            told.append(token)
            yield from parser.feed(token.text)
            if token.finish_reason is None:
                continue
            stopped = token.finish_reason == "stop"
            stop_text = self._parts.tokenizer.decode([token.id]) if stopped else ""
            segments, parsed = parser.finish(stop_text)
            yield from segments
            self.messages += [*asked, _message(parsed, self.messages)]
            usage = Usage(prompt_tokens, self._run.reused, len(told))
            yield Reply(
                *parsed,
                finish_reason=token.finish_reason,
                usage=usage,
                tokens=tuple(told),
                seed=seed,
            )


def _last(events: Iterator[Segment | Reply]) -> Reply:
    return next(event for event in events if isinstance(event, Reply))


def _message(parsed: ParsedReply, before: Sequence[Message]) -> Message:
    message: dict[str, Any] = {"role": "assistant", "content": parsed.text}
    if parsed.reasoning is not None:
        message["reasoning_content"] = parsed.reasoning
    if parsed.tool_calls:
        message["tool_calls"] = call_entries(parsed.tool_calls, before)
    return message
