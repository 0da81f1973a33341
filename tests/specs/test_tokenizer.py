"""The package's tokenizer cuts nothing, and adds nothing but what begins a text."""

import json

import pytest
from golden import GOLDEN

from masu.specs.errors import RequestError, TextError
from masu.specs.text.tokenizer import PackageTokenizer

FILE = GOLDEN / "llama" / "engine" / "tokenizer.json"
TEXTS = [
    "",
    "Hello, world",
    "  two  spaces\n",
    "héllo 你好 🙂👨‍👩‍👧",
    "<|im_start|>user<think>",
    "\x00\x7f",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_comes_back(text: str) -> None:
    tokenizer = PackageTokenizer.open(FILE)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def with_post_processor(before: list[str], after: list[str]) -> PackageTokenizer:
    """The tokenizer with a post-processor that puts special tokens around a text."""
    ids = {"<bos>": 0, "<eos>": 1, "<|im_start|>": 2}
    around = [{"SpecialToken": {"id": token, "type_id": 0}} for token in (*before, "A", *after)]
    around[len(before)] = {"Sequence": {"id": "A", "type_id": 0}}
    file = json.loads(FILE.read_text())
    file["post_processor"] = {
        "type": "TemplateProcessing",
        "single": around,
        "pair": [*around, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {
            token: {"id": token, "ids": [ids[token]], "tokens": [token]}
            for token in {*before, *after}
        },
    }
    return PackageTokenizer(json.dumps(file).encode())


def test_special_tokens_become_themselves_and_none_is_added() -> None:
    tokenizer = with_post_processor(["<bos>"], [])
    assert tokenizer.encode("<|im_start|>") == [2]
    assert tokenizer.decode([2, 3, 1], skip_special=True) == ""


def test_a_prompt_begins_with_the_begin_token_exactly_once() -> None:
    tokenizer = with_post_processor(["<bos>"], [])
    plain = tokenizer.encode("two words")
    assert 0 not in plain
    assert tokenizer.encode_prompt("two words") == [0, *plain]
    assert tokenizer.encode_prompt("<bos>two words") == [0, *plain]
    assert tokenizer.encode_prompt("two words<bos>") == [0, *plain, 0]
    assert tokenizer.encode_prompt("") == [0]


def test_a_prompt_gets_what_the_file_puts_around_a_text() -> None:
    plain = PackageTokenizer.open(FILE).encode("two words")
    assert PackageTokenizer.open(FILE).encode_prompt("two words") == plain
    twice = with_post_processor(["<bos>", "<|im_start|>"], ["<eos>"])
    assert twice.encode_prompt("two words") == [0, 2, *plain, 1]
    assert twice.encode_prompt("<bos><|im_start|>two words") == [0, 2, *plain, 1]
    assert twice.encode_prompt("<bos>two words") == [0, 2, 0, *plain, 1]


def test_settings_of_training_do_not_cut_or_pad_a_prompt() -> None:
    file = json.loads(FILE.read_text())
    file["truncation"] = {
        "direction": "Right",
        "max_length": 2,
        "strategy": "LongestFirst",
        "stride": 0,
    }
    file["padding"] = {
        "strategy": {"Fixed": 40},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 1,
        "pad_type_id": 0,
        "pad_token": "<eos>",
    }
    plain = PackageTokenizer.open(FILE).encode("one two three")
    assert PackageTokenizer(json.dumps(file).encode()).encode("one two three") == plain


def test_ids_and_spellings() -> None:
    tokenizer = PackageTokenizer.open(FILE)
    assert tokenizer.id_of("<|im_end|>") == 3
    assert tokenizer.token(3) == "<|im_end|>"
    assert tokenizer.id_of("no such token") is None
    assert tokenizer.token(10**6) is None
    assert tokenizer.size == 322
    assert tokenizer.special_ids == {0, 1, 2, 3, 320}
    assert tokenizer.decode([10**6]) == ""


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b'{"version": "1.0", "model": 3}'])
def test_a_malformed_file_is_named(data: bytes) -> None:
    with pytest.raises(TextError, match=r"here/tokenizer\.json"):
        PackageTokenizer(data, "here/tokenizer.json")


def test_half_a_surrogate_pair_is_no_text() -> None:
    with pytest.raises(RequestError, match="Unicode"):
        PackageTokenizer.open(FILE).encode("a\ud83d")
    with pytest.raises(RequestError, match="Unicode"):
        PackageTokenizer.open(FILE).encode_prompt("a\ud83d")
