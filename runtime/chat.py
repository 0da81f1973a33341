"""A conversation with a model: turn by turn, streamed, and not run twice where it can go on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from masu.runtime.generate import Ending, FinishReason, Token, generate
from masu.runtime.sampling import Sampling
from masu.runtime.token_run import TokenModel, TokenRun
from masu.specs.codec import ReasoningEffort
from masu.specs.text.chat_codec import ChatCodec, Message
from masu.specs.text.parser import ParsedReply, ReplyParser, Segment
from masu.specs.text.tokenizer import PackageTokenizer


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
        text: the answer.
        seed: with which the same conversation is answered in the same way.
    """

    reasoning: str | None
    text: str
    finish_reason: FinishReason
    usage: Usage
    seed: int | None


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

    Attributes:
        messages: `{"role", "content"[, "reasoning_content"]}` of all turns so far; may be edited.

    Raises:
        RequestError: the model knows no such effort.
    """

    def __init__(
        self,
        parts: ChatParts,
        *,
        system: str | None = None,
        reasoning_effort: ReasoningEffort | None = None,
    ) -> None:
        self._parts = parts
        self._effort: ReasoningEffort | None = reasoning_effort
        self._run = TokenRun(parts.model, parts.lengths)
        self.messages: list[Message] = []
        if system is not None:
            self.messages.append({"role": "system", "content": system})
        parts.codec.check_effort(reasoning_effort)

    def send(
        self,
        text: str,
        *,
        sampling: Sampling | None = None,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Reply:
        """The reply to a message; arguments and errors as for `stream`."""
        events = self.stream(text, sampling=sampling, max_tokens=max_tokens, stop=stop)
        return next(event for event in events if isinstance(event, Reply))

    def stream(
        self,
        text: str,
        *,
        sampling: Sampling | None = None,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Iterator[Segment | Reply]:
        """The reply in segments of reasoning and text as they become certain, then as a whole.

        Args:
            sampling: for this turn; None takes the chat's.
            max_tokens: None for as many as the context holds.
            stop: texts before which the reply ends.

        Raises:
            RequestError: at once: the conversation does not fit, or the template refuses it.
            TextError: the template fails.
        """
        parts, asked = self._parts, {"role": "user", "content": text}
        prompt = parts.codec.render([*self.messages, asked], reasoning_effort=self._effort)
        ids = parts.tokenizer.encode(prompt)
        sampling = (sampling or parts.sampling).seeded()
        tokens = generate(
            parts.model,
            ids,
            sampling,
            Ending(max_tokens=max_tokens, stop_ids=parts.stop_ids, stop_strings=stop),
            tokenizer=parts.tokenizer,
            skip_special=not parts.codec.reads_markers,
            run=self._run,
        )
        return self._turn(tokens, parts.codec.parser(prompt), asked, len(ids), sampling.seed)

    def _turn(
        self,
        tokens: Iterator[Token],
        parser: ReplyParser,
        asked: Message,
        prompt_tokens: int,
        seed: int | None,
    ) -> Iterator[Segment | Reply]:
        for count, token in enumerate(tokens, start=1):
            yield from parser.feed(token.text)
            if token.finish_reason is None:
                continue
            stopped = token.finish_reason == "stop"
            stop_text = self._parts.tokenizer.decode([token.id]) if stopped else ""
            segments, parsed = parser.finish(stop_text)
            yield from segments
            self.messages += [asked, _message(parsed)]
            usage = Usage(prompt_tokens, self._run.reused, count)
            yield Reply(parsed.reasoning, parsed.text, token.finish_reason, usage, seed)


def _message(parsed: ParsedReply) -> Message:
    message: dict[str, Any] = {"role": "assistant", "content": parsed.text}
    if parsed.reasoning is not None:
        message["reasoning_content"] = parsed.reasoning
    return message
