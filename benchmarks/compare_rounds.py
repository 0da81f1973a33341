"""The rounds: in each, everyone reads a long prompt and goes on after a short one."""

import sys
from collections.abc import Mapping
from statistics import median
from typing import Any

from compare_contenders import Field

PROMPT, LONG = 64, 1024
"""Tokens of the prompt that is gone on from, and of the one that is only read."""


def readable(field: Field, prompt: list[int]) -> dict[str, int]:
    """How many tokens each can read in the time of an answer, by the better of two readings of a
    short prompt, for it may compile at the first: the whole prompt, or a half, a quarter ... of it.
    """
    lengths = {}
    for name in list(field.running):
        answers = [field.ask(name, prompt[:PROMPT], 2) for _ in range(2)]
        taken = [each["first_token_seconds"] for each in answers if each is not None]
        if name in field.running:
            lengths[name] = affordable(min(taken), field.limits.seconds)
    return lengths


def affordable(short: float, limit: float) -> int:
    """Tokens that can be read within a limit, where `PROMPT` of them take `short` seconds."""
    length = LONG
    while length > PROMPT and short * length / PROMPT > limit:
        length //= 2
    return length


def one_round(
    field: Field, prompt: list[int], lengths: Mapping[str, int], new_tokens: int
) -> dict[str, Any]:
    """Everyone reads the long prompt, then everyone writes after the short one; of those who did
    both, the figures.
    """
    print("a round begins", file=sys.stderr)
    read = {name: field.ask(name, prompt[:length], 1) for name, length in lengths.items()}
    written = {name: field.ask(name, prompt[:PROMPT], new_tokens) for name in lengths}
    return {
        name: {
            "prefill": long["prefill_tokens_per_second"],
            "decode": short["decode_tokens_per_second"],
            "first_token": short["first_token_seconds"],
            "resident": short["resident_bytes"],
            "peak": short["peak_bytes"],
            "read": long["prompt_tokens"],
            "written": len(short["ids"]),
        }
        for name in lengths
        if (long := read[name]) is not None and (short := written[name]) is not None
    }


def summed(name: str, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Of each figure the median, the lowest and the highest, over the rounds it was there for."""
    found = {}
    there = [each[name] for each in rounds if name in each]
    for figure in ("prefill", "decode", "first_token", "peak", "resident", "read", "written"):
        values = [each[figure] for each in there if each[figure] is not None]
        if values:
            found[figure] = {"median": median(values), "low": min(values), "high": max(values)}
    return found
