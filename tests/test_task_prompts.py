"""The sixteen task-like prompts: each of another kind, whole, and of realistic length."""

import tomllib
from pathlib import Path

FILE = Path(__file__).parent.parent / "benchmarks" / "prompts.toml"
PROMPTS = tomllib.loads(FILE.read_text(encoding="utf-8"))["prompts"]


def test_sixteen_prompts_of_sixteen_kinds() -> None:
    assert len(PROMPTS) == 16
    for field in ("name", "task", "user"):
        assert len({prompt[field] for prompt in PROMPTS}) == 16, field
    assert {"mail", "rewrite", "json", "table", "code edit", "summary", "translation",
            "extraction"} <= {prompt["task"] for prompt in PROMPTS}  # fmt: skip


def test_every_prompt_is_whole() -> None:
    for prompt in PROMPTS:
        assert prompt.keys() == {"name", "task", "system", "user"}, prompt["name"]
        assert all(isinstance(text, str) and text.strip() for text in prompt.values())
        assert prompt["name"] == prompt["name"].lower().replace(" ", "-")


def test_most_have_a_text_to_work_on() -> None:
    """In words, for which no tokenizer is needed: 200 words are some 300 tokens."""
    words = sorted(len(prompt["user"].split()) for prompt in PROMPTS)
    assert sum(count >= 120 for count in words) >= 10
    assert sum(count >= 200 for count in words) >= 4
    assert words[-1] < 700
