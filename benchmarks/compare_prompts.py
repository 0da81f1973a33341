"""The tasks of prompts.toml: everyone answers each, beside the reference's own answer."""

import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compare_agreement import equal_tokens
from compare_contenders import Field

from masu.runtime.language_model import LanguageModel

PROMPTS = Path(__file__).with_name("prompts.toml")


@dataclass(frozen=True)
class Task:
    """Attributes:
    ids: of the conversation up to where the answer begins: the same ones for everybody.
    """

    name: str
    ids: list[int]


def read_tasks(model: LanguageModel) -> list[Task]:
    """All of them, in the words of the model's own template."""
    prompts = tomllib.loads(PROMPTS.read_text(encoding="utf-8"))["prompts"]
    return [
        Task(
            prompt["name"],
            model.encode_chat(
                [
                    {"role": "system", "content": prompt["system"]},
                    {"role": "user", "content": prompt["user"]},
                ]
            ),
        )
        for prompt in prompts
    ]


def task_answers(
    field: Field, tasks: Sequence[Task], wanted: Sequence[Sequence[int]], count: int
) -> list[dict[str, Any]]:
    """Of each task: its length, and of each contender the seconds to its first token, how fast and
    how many it wrote, and how many of these are the reference's.

    Args:
        wanted: the reference's answers; empty without a reference.
    """
    found = []
    for number, task in enumerate(tasks):
        print(f"task {task.name}", file=sys.stderr)
        answers = {}
        for name in list(field.running):
            if field.running[name].contender.compiles:
                field.ask(name, task.ids, 1)
            answer = field.ask(name, task.ids, count)
            if answer is not None:
                answers[name] = {
                    "first_token": answer["first_token_seconds"],
                    "decode": answer["decode_tokens_per_second"],
                    "written": len(answer["ids"]),
                    "equal": equal_tokens(answer["ids"], wanted[number]) if wanted else None,
                }
        found.append({"name": task.name, "prompt_tokens": len(task.ids), "answers": answers})
    return found
