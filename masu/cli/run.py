"""`masu run`: one prompt, one answer."""

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from masu.cli import options
from masu.cli.output import print_json
from masu.cli.replies import stream_reply, tell_if_cut

if TYPE_CHECKING:
    from masu.runtime.chat import TurnOptions
    from masu.runtime.generate import Token
    from masu.runtime.language_model import LanguageModel


@click.command()
@options.package
@click.argument("prompt")
@options.system
@options.reasoning_effort
@click.option("--raw", is_flag=True, help="Continue PROMPT as it is, without the chat template.")
@options.generation
@options.backend
@options.dtype
@options.threads
@options.activations
@options.as_json
@click.option("--logprobs", is_flag=True, help="Put every token and its log-probability in --json.")
def command(
    package: Path, prompt: str, system: str | None, reasoning_effort: str | None, raw: bool,
    max_tokens: int, stop: tuple[str, ...], backend: str | None, dtype: str | None,
    threads: int | None, activations: str | None, as_json: bool, logprobs: bool, **sampling: Any,
) -> None:  # fmt: skip
    """Answer PROMPT with the model of PACKAGE.

    The answer goes to stdout as it is written; what a reasoning model thinks goes to stderr.
    """
    if raw and (system or reasoning_effort):
        raise click.UsageError("--raw has no conversation for --system or --reasoning-effort")
    if logprobs and not as_json:
        raise click.UsageError("--logprobs needs --json")
    from masu.cli.jax_settings import configure_jax
    from masu.runtime.language_model import load

    configure_jax()
    began = perf_counter()
    model = load(package, dtype=dtype, backend=backend, threads=threads, activations=activations)
    loaded = perf_counter()
    chosen = model.sampling.override(**sampling).seeded()
    turn: TurnOptions = {
        "sampling": chosen, "max_tokens": max_tokens, "stop": stop, "logprobs": logprobs
    }  # fmt: skip
    if raw:
        figures = _continue(model, prompt, turn, as_json)
    else:
        conversation = {"system": system, "reasoning_effort": reasoning_effort}
        figures = _reply(model, prompt, conversation, turn, as_json)
    if as_json:
        seconds = {"load": loaded - began, "reply": perf_counter() - loaded}
        print_json({**figures, "seed": chosen.seed, "seconds": seconds})


def _reply(
    model: "LanguageModel",
    prompt: str,
    conversation: dict[str, Any],
    turn: "TurnOptions",
    quiet: bool,
) -> dict[str, Any]:
    chat = model.chat(**conversation)
    reply = chat.send(prompt, **turn) if quiet else stream_reply(chat.stream(prompt, **turn))
    return {
        "text": reply.text,
        "reasoning": reply.reasoning,
        **_figures(reply.tokens, reply.usage.prompt_tokens, turn),
    }


def _continue(
    model: "LanguageModel", prompt: str, turn: "TurnOptions", quiet: bool
) -> dict[str, Any]:
    ids = model.tokenizer.encode_prompt(prompt)
    tokens = []
    for token in model.generate(ids, **turn):
        tokens.append(token)
        if not quiet:
            click.echo(token.text, nl=False)
    if not quiet:
        click.echo()
        tell_if_cut(tokens[-1].finish_reason)
    return {
        "text": "".join(token.text for token in tokens),
        **_figures(tokens, len(ids), turn),
    }


def _figures(tokens: "Sequence[Token]", prompt_tokens: int, turn: "TurnOptions") -> dict[str, Any]:
    figures = {
        "finish_reason": tokens[-1].finish_reason,
        "prompt_tokens": prompt_tokens,
        "reply_tokens": len(tokens),
    }
    if not turn.get("logprobs"):
        return figures
    told = [{"id": t.id, "text": t.text, "logprob": t.logprob} for t in tokens]
    return {**figures, "tokens": told}
