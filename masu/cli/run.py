"""`masu run`: one prompt, one answer."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from masu.cli import options
from masu.cli.output import print_json
from masu.cli.replies import stream_reply, tell_if_cut

if TYPE_CHECKING:
    from masu.runtime.language_model import LanguageModel
    from masu.runtime.sampling import Sampling


@click.command()
@options.package
@click.argument("prompt")
@options.max_tokens
@options.temperature
@options.seed
@click.option("--raw", is_flag=True, help="Continue PROMPT as it is, without the chat template.")
@options.backend
@options.dtype
@options.as_json
def command(
    package: Path, prompt: str, max_tokens: int, temperature: float | None, seed: int | None,
    raw: bool, backend: str | None, dtype: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Answer PROMPT with the model of PACKAGE.

    The answer goes to stdout as it is written; what a reasoning model thinks goes to stderr.
    """
    from masu.cli.jax_settings import configure_jax
    from masu.runtime.language_model import load

    configure_jax()
    began = perf_counter()
    model = load(package, dtype=dtype, backend=backend)
    loaded = perf_counter()
    sampling = model.sampling.override(temperature=temperature, seed=seed).seeded()
    answer = _continue if raw else _reply
    figures = answer(model, prompt, sampling, max_tokens, as_json)
    if as_json:
        seconds = {"load": loaded - began, "reply": perf_counter() - loaded}
        print_json({**figures, "seed": sampling.seed, "seconds": seconds})


def _reply(
    model: "LanguageModel", prompt: str, sampling: "Sampling", max_tokens: int, quiet: bool
) -> dict[str, Any]:
    chat = model.chat(sampling=sampling)
    if quiet:
        reply = chat.send(prompt, max_tokens=max_tokens)
    else:
        reply = stream_reply(chat.stream(prompt, max_tokens=max_tokens))
    return {
        "text": reply.text,
        "reasoning": reply.reasoning,
        "finish_reason": reply.finish_reason,
        "prompt_tokens": reply.usage.prompt_tokens,
        "reply_tokens": reply.usage.reply_tokens,
    }


def _continue(
    model: "LanguageModel", prompt: str, sampling: "Sampling", max_tokens: int, quiet: bool
) -> dict[str, Any]:
    ids = model.tokenizer.encode(prompt)
    tokens = []
    for token in model.generate(ids, sampling=sampling, max_tokens=max_tokens):
        tokens.append(token)
        if not quiet:
            click.echo(token.text, nl=False)
    finish_reason = tokens[-1].finish_reason
    if not quiet:
        click.echo()
        tell_if_cut(finish_reason)
    return {
        "text": "".join(token.text for token in tokens),
        "finish_reason": finish_reason,
        "prompt_tokens": len(ids),
        "reply_tokens": len(tokens),
    }
