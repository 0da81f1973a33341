"""Comparing with others: who is slow says less, who fails or hangs leaves, and the page tells."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from compare_agreement import agreement, equal_tokens
from compare_contenders import ADAPTERS, Contender, Field, Gone, Limits, Running
from compare_prompts import Task, read_tasks, task_answers
from compare_rounds import LONG, PROMPT, affordable, one_round, readable, summed
from compare_table import page
from golden import GOLDEN

from masu.runtime.language_model import load

TOY = """
import sys, time
sys.path.insert(0, {adapters!r})
from serving import serve

class Toy:
    activations = "whole numbers"
    def __init__(self, options):
        {load}
    def encode(self, text):
        return [ord(letter) for letter in text]
    def decode(self, ids):
        return ""
    def generate(self, ids, max_tokens):
        ids = list(ids)
        for _ in range(max_tokens):
            {step}
            ids.append(sum(ids) % 97)
            yield ids[-1]

serve(Toy, [])
"""


def toy(folder: Path, name: str, step: str = "pass", load: str = "pass") -> Contender:
    script = folder / f"{name}.py"
    script.write_text(TOY.format(adapters=str(ADAPTERS), step=step, load=load))
    return Contender(name, str(script), "json")


def continued(ids: list[int], count: int) -> list[int]:
    told = list(ids)
    for _ in range(count):
        told.append(sum(told) % 97)
    return told[len(ids) :]


def entered(*contenders: Contender, seconds: float = 60.0) -> Field:
    field = Field(Limits(seconds, patience=120.0))
    for each in contenders:
        field.enter(each, sys.executable, Path(), 1)
    return field


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    """One that is quick, and one that takes 40 ms for a token, where an answer may take 0.4 s."""
    folder = tmp_path_factory.mktemp("toys")
    slow = toy(folder, "slow", step="time.sleep(0.04)")
    together = entered(toy(folder, "quick"), slow, seconds=0.4)
    yield together
    together.close()
    assert together.left == {}


def test_a_slow_one_stops_with_what_it_has(field: Field) -> None:
    answer = field.ask("slow", [1, 2], 1_000)
    assert answer is not None
    assert 2 <= len(answer["ids"]) < 1_000
    assert answer["ids"] == continued([1, 2], len(answer["ids"]))
    # However much the machine has to do: no token comes sooner than after its pause.
    assert answer["decode_tokens_per_second"] < 1 / 0.04


def test_what_has_to_be_whole_is(field: Field) -> None:
    answer = field.ask("slow", [3], 12, whole=True)
    assert answer is not None
    assert answer["ids"] == continued([3], 12)


def test_the_peak_is_not_that_of_the_process_before_it(field: Field, tmp_path: Path) -> None:
    size = 150_000_000
    held = b"\1" * size
    together = entered(toy(tmp_path, "small"))
    answer = together.ask("small", [1], 2)
    together.close()
    assert answer is not None
    assert len(held) == size > answer["peak_bytes"] > 0


@pytest.mark.parametrize(
    ("step", "reason"),
    [("raise ValueError('not today')", "ValueError: not today"), ("sys.exit(3)", "status 3")],
)
def test_who_fails_leaves_and_the_others_go_on(tmp_path: Path, step: str, reason: str) -> None:
    together = entered(toy(tmp_path, "bad", step=step), toy(tmp_path, "good"))
    assert together.ask("bad", [1], 2) is None
    assert reason in together.left["bad"]
    assert together.ask("bad", [1], 2) is None
    assert list(together.running) == ["good"]
    rounds = [one_round(together, [1] * LONG, {"bad": 64, "good": 64}, 4)]
    assert list(rounds[0]) == ["good"]
    assert summed("bad", rounds) == {}
    together.close()


def test_who_says_nothing_is_not_waited_for(tmp_path: Path) -> None:
    hanging = toy(tmp_path, "hanging", load="time.sleep(600)")
    with pytest.raises(Gone, match=r"loading took more than 0\.1 s"):
        Running(hanging, sys.executable, Path(), 1, patience=0.1)


def test_a_slow_reader_reads_a_part() -> None:
    assert affordable(0.1, 30.0) == LONG
    assert affordable(30.0 * PROMPT / LONG, 30.0) == LONG
    assert affordable(3.0, 30.0) == 512
    assert affordable(7.0, 30.0) == 256
    assert affordable(1_000.0, 30.0) == PROMPT


def test_rounds(field: Field) -> None:
    lengths = readable(field, [1] * LONG)
    assert list(lengths) == ["quick", "slow"]
    assert lengths["slow"] < LONG
    found = [one_round(field, [1] * LONG, {"quick": LONG, "slow": 128}, 50) for _ in range(2)]
    figures = {name: summed(name, found) for name in lengths}
    assert figures["quick"]["read"]["high"] == LONG
    assert figures["slow"]["read"] == {"median": 128, "low": 128, "high": 128}
    assert figures["quick"]["written"]["low"] == 50 > figures["slow"]["written"]["high"]


def test_tokens_are_compared_with_those_of_the_reference(field: Field) -> None:
    assert equal_tokens([1, 2, 3], [1, 2, 3]) == 3
    assert equal_tokens([1, 2], [1, 2, 3]) == 2
    assert equal_tokens([1, 4, 3], [1, 2, 3]) == 1
    prompt = [5, 6]
    wanted = continued(prompt, 3)
    wanted[1] += 1
    found = agreement(field, prompt, wanted)
    expected = sum(continued([*prompt, *wanted[:i]], 1) == wanted[i : i + 1] for i in range(3))
    assert expected < 3
    assert found["quick"] == {"greedy_equal": 1, "same_choice": expected, "of": 3}
    assert found["slow"] == found["quick"]


def test_tasks(field: Field) -> None:
    tasks = [Task("add", [1, 2]), Task("take away", [3])]
    wanted = [continued(task.ids, 4) for task in tasks]
    wanted[1][2] += 1
    found = task_answers(field, tasks, wanted, 4)
    assert [task["prompt_tokens"] for task in found] == [2, 1]
    assert [task["answers"]["quick"]["equal"] for task in found] == [4, 2]
    assert [task["answers"]["slow"]["equal"] for task in task_answers(field, tasks, [], 4)] == [
        None,
        None,
    ]


def test_all_prompts_become_tasks_in_the_model_s_own_words() -> None:
    model = load(GOLDEN / "llama" / "engine", backend="numpy")
    tasks = read_tasks(model)
    assert len({task.name for task in tasks}) == 16
    for task in tasks:
        assert len(task.ids) > 20
    [mail] = [task for task in tasks if task.name == "reply-to-a-late-delivery"]
    assert "Jonas Adler" in model.tokenizer.decode(mail.ids)


def figure(value: float) -> dict[str, float]:
    return {"median": value, "low": value, "high": value}


def record() -> dict[str, Any]:
    def figures(rate: float, read: int, written: int) -> dict[str, Any]:
        return {
            **{name: figure(rate) for name in ("decode", "prefill", "first_token", "peak")},
            "read": figure(read),
            "written": {"median": written, "low": written - 1, "high": written},
        }

    answer = {"first_token": 0.25, "decode": 50.0, "written": 32, "equal": 30}
    model = {
        "absent": {"lalamo": "no module"},
        "left": {"llama.cpp": "loading took more than 600 s"},
        "seconds": 30.0,
        "bits": {"masu": 5.0, "mlx-lm": 5.5},
        "versions": {"masu": {"masu": "1"}, "mlx-lm": {"mlx": "2"}},
        "activations": {"masu": "bfloat16", "mlx-lm": "float32"},
        "agreement": {"masu": {"greedy_equal": 8, "same_choice": 7, "of": 8}},
        "figures": {"masu": figures(100, 1024, 128), "mlx-lm": figures(10, 256, 90)},
        "memory": dict.fromkeys(("resident", "mapped", "state", "margin"), 1e6) | {"within": True},
        "tasks": [
            {"name": "a", "prompt_tokens": 300, "answers": {"masu": answer, "mlx-lm": answer}},
            {"name": "b", "prompt_tokens": 900, "answers": {"masu": {**answer, "equal": 2}}},
        ],
    }
    return {"receipt": {"cpu": "one"}, "models": {"Toy": model}}


def test_the_page_says_who_was_slow_absent_or_gone() -> None:
    told = page(record())
    for line in (
        "| activations | bfloat16 | float32 |",
        "| decode, tokens/s | 100.0 (100.0 to 100.0), 1.00 | 10.0 (10.0 to 10.0), 0.10 |",
        "| tokens read in prefill | 1,024 | 256 |",
        "| tokens written in decode | 127 to 128 | 89 to 90 |",
        "Absent: lalamo (no module).",
        "Left before the end: llama.cpp (loading took more than 600 s).",
        "| a | 300 | 250 ms, 50.0/s, 30 of 32 | 250 ms, 50.0/s, 30 of 32 |",
        "| b | 900 | 250 ms, 50.0/s, 2 of 32 | - |",
        "| all: medians, sums | 1,200 | 250 ms, 50.0/s, 32 of 64 | 250 ms, 50.0/s, 30 of 32 |",
    ):
        assert line in told.splitlines()
    [slow] = [line for line in told.splitlines() if line.startswith("Fewer tokens")]
    assert "mlx-lm" in slow
    assert "masu" not in slow


@pytest.mark.slow
def test_masu_s_adapter_says_what_masu_says() -> None:
    path, prompt = GOLDEN / "llama" / "engine", [1, 2, 3, 4]
    masu = Contender("masu", "with_masu.py", "masu")
    running = Running(masu, sys.executable, path, 1, "--dtype", "float32")
    answer = running.ask(prompt, 5)
    running.close()
    model = load(path, dtype="float32")
    greedy = model.sampling.override(temperature=0.0)
    told = [token.id for token in model.generate(prompt, sampling=greedy, max_tokens=5)]
    assert answer["ids"][: len(told)] == told
    assert running.told["activations"] == "float32"
    assert len(answer["ids"]) == 5
