"""A golden package, loaded and asked: ids, text, conversation."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from golden import GOLDEN
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from masu.runtime.language_model import LanguageModel, load
from masu.runtime.sampling import Sampling
from masu.specs.errors import NotAPackage, RequestError, TextError
from masu.specs.text.segment import Segment

GREEDY = Sampling(temperature=0)


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return load(GOLDEN / "qwen3" / "engine", dtype="float32", backend="numpy")


def test_greedy_continuations_are_those_of_transformers(model: LanguageModel) -> None:
    reference = np.load(GOLDEN / "qwen3" / "reference.npz")
    for prompt in ("0", "1"):
        ids = reference[f"input_ids_{prompt}"].tolist()
        # Where the two best logits are close, a continuation may differ.
        assert reference[f"greedy_margin_{prompt}"].min() > 1e-3
        expected = reference[f"greedy_{prompt}"].tolist()
        stops = [place for place, token in enumerate(expected) if token in model.stop_ids]
        expected = expected[: stops[0] + 1] if stops else expected
        tokens = list(model.generate(ids, sampling=GREEDY, max_tokens=16))
        assert [token.id for token in tokens] == expected


def test_logits_are_those_that_generation_uses(model: LanguageModel) -> None:
    ids = model.tokenizer.encode("Hello")
    token = next(model.generate("Hello", sampling=GREEDY, max_tokens=1, logprobs=True))
    row = model.logits(ids)[-1].astype(np.float64)
    assert token.id == row.argmax()
    assert token.logprob == pytest.approx(row[token.id] - np.log(np.exp(row).sum()), abs=1e-5)


def test_the_package_s_defaults_are_in_force(model: LanguageModel) -> None:
    assert model.stop_ids == (1, 3)
    assert model.sampling == Sampling(temperature=0.7, top_k=20, top_p=0.8, repetition_penalty=1.05)


def test_text_is_continued_as_it_is(model: LanguageModel) -> None:
    tokens = list(model.generate("Hello", sampling=GREEDY, max_tokens=5))
    expected = model.tokenizer.decode(
        [token.id for token in tokens if token.id not in model.stop_ids], skip_special=True
    )
    assert "".join(token.text for token in tokens) == expected


def test_a_prompt_begins_as_the_tokenizer_says_but_never_twice(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "qwen3" / "engine", tmp_path / "package")
    file = tmp_path / "package" / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.post_processor = TemplateProcessing(
        single="<bos> $A", pair="$A $B", special_tokens=[("<bos>", 0)]
    )
    tokenizer.save(str(file))
    model = load(tmp_path / "package", dtype="float32", backend="numpy")

    def answer(prompt: str | list[int]) -> list[float | None]:
        tokens = model.generate(prompt, sampling=GREEDY, max_tokens=3, logprobs=True)
        return [token.logprob for token in tokens]

    plain = model.tokenizer.encode("Hello")
    assert answer("Hello") == answer([0, *plain]) != answer(plain)
    messages = [{"role": "user", "content": "Hi"}]
    chat = model.encode_chat(messages)
    assert chat.count(0) == 1  # the template writes it
    assert answer(model.codec.render(messages)) == answer(chat)


def test_a_prompt_beyond_the_context_is_refused(model: LanguageModel) -> None:
    context = model.decoder.context_length
    assert context is not None
    with pytest.raises(RequestError, match=rf"{context + 1} tokens.* holds {context}"):
        model.generate([5] * (context + 1))
    with pytest.raises(RequestError, match="prompt is empty"):
        model.generate("")


def test_a_conversation_is_encoded_up_to_the_answer(model: LanguageModel) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    text = "<bos><|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert model.tokenizer.decode(model.encode_chat(messages)) == text
    quick = model.encode_chat(messages, reasoning_effort="no_reasoning")
    assert model.tokenizer.decode(quick) == text + "<think>\n\n</think>\n\n"


def test_a_second_turn_answers_as_a_fresh_run_would(model: LanguageModel) -> None:
    """Going on from the first turn's state changes no token (numpy computes in float64)."""
    chat = model.chat(sampling=GREEDY)
    chat.send("Hi", max_tokens=6)
    history = list(chat.messages)
    *_, reply = chat.stream("More", max_tokens=6)
    assert not isinstance(reply, Segment)
    fresh = model.chat(sampling=GREEDY)
    fresh.messages = history
    again = fresh.send("More", max_tokens=6)
    assert (again.text, again.reasoning) == (reply.text, reply.reasoning)


def test_a_folder_without_a_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAPackage):
        load(tmp_path)


def test_a_broken_tokenizer_is_named(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "qwen3" / "engine", tmp_path / "package")
    (tmp_path / "package" / "tokenizer.json").write_text("{}")
    with pytest.raises(TextError, match=r"package/tokenizer\.json"):
        load(tmp_path / "package", backend="numpy")


def test_a_package_that_only_continues_text_has_no_conversations(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "qwen3" / "engine", tmp_path / "package")
    file = tmp_path / "package" / "config.json"
    config = json.loads(file.read_text())
    config["token_codec_config"] = {"type": "RawTextCodecConfig"}
    file.write_text(json.dumps(config))
    model = load(tmp_path / "package", backend="numpy")
    assert len(list(model.generate("Hello", sampling=GREEDY, max_tokens=2))) == 2
    with pytest.raises(RequestError, match="continues text"):
        model.chat()
