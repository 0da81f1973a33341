"""The package's tokenizer cuts nothing, and adds nothing but what begins a text."""

import base64
import json

import pytest
from golden import GOLDEN
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

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


def with_steps(**steps: object) -> bytes:
    return json.dumps({**json.loads(FILE.read_text()), **steps}).encode()


def split_by(pattern: str) -> dict:
    cut = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    to_letters = json.loads(FILE.read_text())["pre_tokenizer"]
    return {"type": "Sequence", "pretokenizers": [cut, to_letters]}


def replacing(old: object, new: str, times: int = 1) -> dict:
    step = {"type": "Replace", "pattern": old, "content": new}
    return {"type": "Sequence", "normalizers": [step] * times}


def charsmap(text: str) -> str:
    """SentencePiece's map with an empty trie, and one text that could be put in for a character."""
    trie = bytes(1024)
    return base64.b64encode(len(trie).to_bytes(4, "little") + trie + text.encode() + b"\0").decode()


DOUBLING = replacing({"String": "a"}, "aa", 40)
COSTLY: dict[str, tuple[bytes, str]] = {
    "pattern": (with_steps(pre_tokenizer=split_by("a*a*b")), "2 repeats in a row"),
    "its key in another spelling": (
        with_steps(pre_tokenizer=split_by("a*a*b")).replace(b'"Regex"', b'"\\u0052eg\\u0065x"'),
        "2 repeats in a row",
    ),
    "many patterns": (
        with_steps(pre_tokenizer={"type": "Sequence", "pretokenizers": [split_by("a")] * 65}),
        "65 patterns",
    ),
    "doubling": (with_steps(normalizer=DOUBLING), "1,099,511,627,776 times as long"),
    "a long text for nothing": (
        with_steps(normalizer=replacing({"Regex": ""}, "x" * 100)), "101 times as long"
    ),
    "a long prefix": (
        with_steps(normalizer={"type": "Prepend", "prepend": "x" * 101}), "101 times as long"
    ),
    "doubling by the decoder": (
        with_steps(decoder={"type": "Sequence", "decoders": DOUBLING["normalizers"]}), "as long"
    ),
    "a map with a long text": (
        with_steps(normalizer={"type": "Precompiled", "precompiled_charsmap": charsmap("x" * 200)}),
        "200 times as long",
    ),
    "a replaced run that can be given back": (
        with_steps(normalizer=replacing({"Regex": r"\s+$"}, "")), "the square of a text"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COSTLY)
def test_a_file_that_could_cost_too_much_is_refused(name: str) -> None:
    data, reason = COSTLY[name]
    with pytest.raises(TextError, match=reason) as caught:
        PackageTokenizer(data, "a/tokenizer.json")
    assert "a/tokenizer.json" in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        with_steps(pre_tokenizer=split_by(r"\s*[\r\n]+|\s+(?!\S)|\s+")),
        with_steps(normalizer=replacing({"String": "..."}, "…", 3)),
        with_steps(normalizer=replacing({"Regex": r"\s+"}, " ", 3)),
        with_steps(normalizer={"type": "Prepend", "prepend": "▁"}),
        with_steps(normalizer={"type": "Precompiled", "precompiled_charsmap": charsmap("x" * 33)}),
    ],
)
def test_its_twin_is_read(data: bytes) -> None:
    assert PackageTokenizer(data).encode("two words")


def test_a_run_on_which_a_pattern_takes_too_long_is_refused() -> None:
    """In the text as the normalizer leaves it; other runs do not matter."""
    spaces = PackageTokenizer(with_steps(pre_tokenizer=split_by(r"\s+(?!\S)|\s+")))
    assert spaces.encode(" " * 19_000)
    assert spaces.encode("a b" * 10_000)
    with pytest.raises(TextError, match=r"can take 900,000,000 steps"):
        spaces.encode(" " * 30_000)
    made = with_steps(
        pre_tokenizer=split_by(r"\s+(?!\S)|\s+"), normalizer=replacing({"String": "a"}, " ")
    )
    with pytest.raises(TextError, match=r"can take 900,000,000 steps"):
        PackageTokenizer(made).encode("a" * 30_000)
    group = PackageTokenizer(with_steps(pre_tokenizer=split_by(r"(?:ab)+(?!b)")))
    with pytest.raises(TextError, match=r"can take 900,000,000 steps"):
        group.encode("c" * 30_000)


def test_a_defect_of_the_library_is_an_error_of_the_file() -> None:
    """Oniguruma gives up in the midst of a text; the library panics, which is no `Exception`."""
    tokenizer = PackageTokenizer(with_steps(pre_tokenizer=split_by("b")))
    steps = r"\A(?:a{1,9})+(?=c)"  # what reading would refuse
    tokenizer._bounded.tokenizer.pre_tokenizer = Split(Regex(steps), "isolated")
    with pytest.raises(TextError, match=r"tokenizer.json fails on this text: Onig"):
        tokenizer.encode("a" * 30 + "bc")
