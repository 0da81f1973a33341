"""tokenizer.json rebuilt from a GGUF vocabulary, so that its ids are those of llama.cpp."""

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import gguf
import numpy as np

from masu.converter.sources.gguf_pretokenizers import PRE_TOKENIZERS
from masu.converter.sources.gguf_vocabulary import ADDED, SPECIAL, Vocabulary, first
from masu.specs.errors import TextError

SPACE = "\u2581"  # how SentencePiece writes a space


def tokenizer_json(vocabulary: Vocabulary) -> bytes:
    """The file in the format of the tokenizers library.

    Raises:
        TextError: merges whose parts or results are no tokens, or bytes without a token.
    """
    build = {"gpt2": _byte_level, "llama": _sentence_piece}[vocabulary.keys.model]
    file = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(vocabulary),
        **build(vocabulary),
        "post_processor": _post_processor(vocabulary),
    }
    return json.dumps(file, ensure_ascii=False, separators=(",", ":")).encode()


def _byte_level(vocabulary: Vocabulary) -> dict[str, Any]:
    """GPT-2's tokenizer: text is cut by patterns, then pairs of bytes are merged by rank."""
    pre = PRE_TOKENIZERS[str(vocabulary.keys.pre)]
    cuts = [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        for pattern in pre.patterns
    ]
    # The patterns have cut already; this step only writes each byte as a letter.
    to_letters = {
        "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False,
    }  # fmt: skip
    return {
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*cuts, to_letters]},
        "decoder": to_letters,
        "model": _model(vocabulary, _given_merges(vocabulary), ignore_merges=pre.ignore_merges),
    }


def _sentence_piece(vocabulary: Vocabulary) -> dict[str, Any]:
    """SentencePiece's: the whole text is one piece, and the best-scored neighbours are merged."""
    prefix = vocabulary.keys.add_space_prefix
    to_spaces = [{"type": "Replace", "pattern": {"String": SPACE}, "content": " "}]
    from_spaces = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    prepend = {"type": "Prepend", "prepend": SPACE}
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else []
    decoders = [*to_spaces, {"type": "ByteFallback"}, {"type": "Fuse"}, *strip]
    return {
        "normalizer": (
            {"type": "Sequence", "normalizers": [prepend, from_spaces]} if prefix else from_spaces
        ),
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": _model(vocabulary, _scored_merges(vocabulary), byte_fallback=True),
    }


def _model(
    vocabulary: Vocabulary,
    merges: list[tuple[str, str]],
    *,
    byte_fallback: bool = False,
    ignore_merges: bool = False,
) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        # llama.cpp leaves out a byte that has no token, and so does the library without this.
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": byte_fallback,
        "ignore_merges": ignore_merges,
        "vocab": {token: index for index, token in enumerate(vocabulary.tokens)},
        "merges": merges,
    }


def _given_merges(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """The file's own pairs, the first of equal ones, by rank.

    The space between the two parts is the first one after the first character.
    """
    tokens = set(vocabulary.tokens)
    merges: dict[tuple[str, str], None] = {}
    problems = []
    for index, line in enumerate(vocabulary.keys.merges or []):
        cut = line.find(" ", 1)
        left, right = line[:cut], line[cut + 1 :]
        if cut < 0 or not {left, right, left + right} <= tokens:
            problems.append(
                f"tokenizer.ggml.merges[{index}]: {line!r}: a part or the whole is no token"
            )
        merges.setdefault((left, right))
    if problems:
        raise TextError("the file's merges do not fit its vocabulary:", problems=first(problems))
    return list(merges)


def _scored_merges(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """Every way to put a token together from two others, the best-scored token first.

    llama.cpp merges the two neighbours whose union has the highest score, the leftmost of equals.
    A rank per pair says the same as long as different tokens have different scores; the pairs of
    one token are ranked from the longest left part on, the leftmost in a run of equal characters.
    """
    tokens = {token: index for index, token in enumerate(vocabulary.tokens)}
    _check_characters(vocabulary, tokens)
    scores = vocabulary.keys.scores
    assert scores is not None  # read_vocabulary refuses a file without
    order = np.argsort(-scores.astype(np.float64), kind="stable").tolist()
    merges = {index: list(_halves(vocabulary.tokens[index], tokens)) for index in order}
    merged = [i for i in order if merges[i] and vocabulary.kinds[i] == gguf.TokenType.NORMAL]
    ties = [
        f"{vocabulary.tokens[left]!r} and {vocabulary.tokens[right]!r}: {scores[left]}"
        for left, right in pairwise(merged)
        if scores[left] == scores[right]
    ]
    if ties:
        raise TextError(
            "tokens have the same score, so no order of merges says which comes first:",
            problems=first(ties),
        )
    return [pair for index in order for pair in merges[index]]


def _check_characters(vocabulary: Vocabulary, tokens: dict[str, int]) -> None:
    """llama.cpp merges characters even if they are no tokens; the tokenizers library does not."""
    missing = [f"<0x{byte:02X}>" for byte in range(256) if f"<0x{byte:02X}>" not in tokens]
    apart = [
        repr(token)
        for token, kind in zip(vocabulary.tokens, vocabulary.kinds, strict=True)
        if kind == gguf.TokenType.NORMAL and not tokens.keys() >= set(token)
    ]
    if missing:
        raise TextError("the vocabulary has no token for some bytes:", problems=first(missing))
    if apart:
        raise TextError("tokens have characters that are no tokens:", problems=first(apart))


def _halves(token: str, tokens: dict[str, int]) -> Iterator[tuple[str, str]]:
    for cut in range(len(token) - 1, 0, -1):
        left, right = token[:cut], token[cut:]
        if left in tokens and right in tokens:
            yield left, right


def _added_tokens(vocabulary: Vocabulary) -> list[dict[str, Any]]:
    """Tokens that are found in the raw text. Special ones are not shown when ids become text."""
    return [
        {
            "id": index,
            "content": vocabulary.tokens[index],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind in SPECIAL,
        }
        for index, kind in enumerate(vocabulary.kinds)
        if kind in ADDED
    ]


def _post_processor(vocabulary: Vocabulary) -> dict[str, Any] | None:
    """What is put around a text that is not a chat prompt: the begin and end tokens."""
    keys = vocabulary.keys
    before = [keys.bos] if vocabulary.add_bos and keys.bos is not None else []
    after = [keys.eos] if keys.add_eos and keys.eos is not None else []
    if not before and not after:
        return None

    def around(sequence: str, kind: int) -> list[dict[str, Any]]:
        def special(index: int) -> dict[str, Any]:
            return {"SpecialToken": {"id": vocabulary.tokens[index], "type_id": kind}}

        inner = {"Sequence": {"id": sequence, "type_id": kind}}
        return [*map(special, before), inner, *map(special, after)]

    return {
        "type": "TemplateProcessing",
        "single": around("A", 0),
        "pair": [*around("A", 0), *around("B", 1)],
        "special_tokens": {
            vocabulary.tokens[index]: {
                "id": vocabulary.tokens[index],
                "ids": [index],
                "tokens": [vocabulary.tokens[index]],
            }
            for index in {*before, *after}
        },
    }
