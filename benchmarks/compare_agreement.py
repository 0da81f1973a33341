"""What everyone's tokens have in common with those of the reference: transformers in float32, with
the numbers of the file that all weights come from.
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from compare_contenders import CONTENDERS, Field, Running

REFERENCE = next(each for each in CONTENDERS if each.name == "transformers")


def of_reference(
    python: str, path: Path, threads: int, asked: Iterable[tuple[list[int], int]]
) -> list[list[int]]:
    """Its answers to prompts with so many tokens each."""
    print("the reference answers", file=sys.stderr)
    reference = Running(REFERENCE, python, path, threads, "--dtype", "float32")
    found = [reference.ask(ids, count)["ids"] for ids, count in asked]
    reference.close()
    return found


def agreement(field: Field, prompt: list[int], wanted: Sequence[int]) -> dict[str, Any]:
    """Of each contender: greedy tokens equal to the reference's until the first other one, and how
    many of the reference's tokens it chooses after the reference's own beginning.
    """
    found = {}
    for name in list(field.running):
        print(f"{name} is compared with the reference", file=sys.stderr)
        asked = [(prompt, len(wanted))]
        asked += [([*prompt, *wanted[:place]], 1) for place in range(len(wanted))]
        answers = [field.ask(name, ids, count, whole=True) for ids, count in asked]
        if name in field.running:
            free, *guided = [answer["ids"] for answer in answers if answer is not None]
            same = sum(ids[0] == token for ids, token in zip(guided, wanted, strict=True))
            equal = equal_tokens(free, wanted)
            found[name] = {"greedy_equal": equal, "same_choice": same, "of": len(wanted)}
    return found


def equal_tokens(own: Sequence[int], wanted: Sequence[int]) -> int:
    """How many are the reference's, until the first other one."""
    pairs = enumerate(zip(own, wanted, strict=False))
    shorter = min(len(own), len(wanted))
    return next((place for place, (mine, its) in pairs if mine != its), shorter)
