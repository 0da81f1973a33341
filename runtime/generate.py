"""Continues a prompt token by token, until a stop token, a stop string, or the end of room."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from masu.runtime.sampling import Sampling, log_probability, sample
from masu.runtime.text_stream import VisibleText
from masu.runtime.token_run import TokenModel, TokenRun
from masu.specs.errors import RequestError
from masu.specs.text.tokenizer import PackageTokenizer

FinishReason = Literal["stop", "length", "stop_string"]


@dataclass(frozen=True)
class Token:
    """One generated token.

    Attributes:
        text: what became certain with it; empty without a tokenizer. All texts together are the
            reply: without the stop token, and up to the stop string.
        logprob: natural logarithm of its share in the model's own distribution, if asked for.
        finish_reason: of the last token, None before.
    """

    id: int
    text: str
    logprob: float | None
    finish_reason: FinishReason | None


@dataclass(frozen=True, kw_only=True)
class Ending:
    """When a generation ends.

    Attributes:
        max_tokens: the most tokens to generate; None for as many as the context holds.
        stop_ids: a token of these ends it; it is the last token, and no part of the text.
        stop_strings: the text ends before the first of them.
    """

    max_tokens: int | None = None
    stop_ids: Collection[int] = ()
    stop_strings: Sequence[str] = ()


def generate(
    model: TokenModel,
    prompt: Sequence[int],
    sampling: Sampling,
    ending: Ending,
    *,
    tokenizer: PackageTokenizer | None = None,
    skip_special: bool = True,
    logprobs: bool = False,
    run: TokenRun | None = None,
) -> Iterator[Token]:
    """The tokens after the prompt, each as soon as it is known.

    Args:
        tokenizer: for the tokens' texts; stop strings need one.
        skip_special: leave special tokens out of the text.
        run: where the prompt may go on from; afterwards, what was run.

    Raises:
        RequestError: at once, before anything is run: an empty prompt, one that the context
            cannot hold with an answer, or options that contradict each other.
    """
    reach = _reach(model.context_length, len(prompt), ending.max_tokens)
    if ending.stop_strings and tokenizer is None:
        raise RequestError("stop strings need a tokenizer")
    text = VisibleText(tokenizer, ending.stop_strings, skip_special=skip_special)
    run = TokenRun(model) if run is None else run
    # The body is a generator of its own: what is wrong must not wait for the first token.
    return _tokens(run, prompt, reach, sampling.seeded(), {*ending.stop_ids}, text, logprobs)


def _tokens(
    run: TokenRun,
    prompt: Sequence[int],
    reach: int,
    sampling: Sampling,
    stop_ids: Collection[int],
    text: VisibleText,
    logprobs: bool,
) -> Iterator[Token]:
    logits = run.begin(prompt, reach)
    turn, seen = run.turn, list(prompt)
    while True:
        token = sample(logits, sampling, seen, len(seen))
        seen.append(token)
        shown, reason = _shown(text, token, token in stop_ids, len(seen) == reach)
        yield Token(token, shown, log_probability(logits, token) if logprobs else None, reason)
        if reason is not None:
            return
        logits = run.extend(token, turn)


def _shown(
    text: VisibleText, token: int, is_stop: bool, is_last: bool
) -> tuple[str, FinishReason | None]:
    """The text that this token makes certain, and whether the reply ends with it."""
    if is_stop:
        return text.finish().text, "stop"
    shown = text.add(token)
    if is_last and shown.stop is None:
        rest = text.finish()
        return shown.text + rest.text, "length" if rest.stop is None else "stop_string"
    return shown.text, None if shown.stop is None else "stop_string"


def _reach(context: int | None, prompt: int, max_tokens: int | None) -> int:
    """How long the sequence may become."""
    if prompt == 0:
        raise RequestError("the prompt is empty: there is nothing to continue")
    if max_tokens is not None and max_tokens < 1:
        raise RequestError(f"max_tokens must be 1 or more, found {max_tokens}")
    if context is None and max_tokens is None:
        raise RequestError("this model has no limit of context: max_tokens must be given")
    if context is not None and prompt >= context:
        raise RequestError(
            f"the prompt has {prompt} tokens, the model's context holds {context}: "
            "there is no room for an answer"
        )
    limits = [context, None if max_tokens is None else prompt + max_tokens]
    return min(limit for limit in limits if limit is not None)
