"""Streamed text is the decoded text, cut only where no later token can change what was shown."""

import json
from collections.abc import Sequence

import pytest
from golden import GOLDEN
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from masu.runtime.text_stream import StopStrings, TextStream, VisibleText
from masu.specs.errors import RequestError
from masu.specs.text.tokenizer import PackageTokenizer

TEXTS = [
    "Hello, world! 🙂🙃 你好 é",
    "👨‍👩‍👧 ✨",
    " leading",
    "trailing  ",
    "a\n\nb\t c",
    "\ufffd",
    "x\ufffdy",
]
BYTES = {f"<0x{value:02X}>": value + 4 for value in range(256)}


def byte_level() -> PackageTokenizer:
    return PackageTokenizer.open(GOLDEN / "llama" / "engine" / "tokenizer.json")


def byte_fallback() -> PackageTokenizer:
    """As Llama 2: spaces are `▁`, one is put in front, unknown characters become bytes."""
    words = ["▁", "▁▁", "a", "b", "▁a", "▁b", "c", "▁c", "é", "好", "."]
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2, "<0>": 3, **BYTES}
    vocab |= {word: len(vocab) + place for place, word in enumerate(words)}
    tokenizer = Tokenizer(
        models.BPE(vocab, [], byte_fallback=True, unk_token="<unk>", fuse_unk=True)
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(
        [AddedToken("<s>", special=True), AddedToken("</s>", special=True)]
    )
    return PackageTokenizer(tokenizer.to_str().encode())


def metaspace() -> PackageTokenizer:
    words = ["▁", "a", "b", "▁a", "▁b", "c", "▁c", "é"]
    vocab = {"<unk>": 0, "<s>": 1} | {word: place + 2 for place, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocab, [], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens([AddedToken("<s>", special=True)])
    return PackageTokenizer(tokenizer.to_str().encode())


def word_pieces() -> PackageTokenizer:
    words = ["[UNK]", "[CLS]", "hello", "##ing", "world", "##s", ".", ",", "'", "do", "n't", "a"]
    tokenizer = Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.decoder = decoders.WordPiece(cleanup=True)
    tokenizer.add_special_tokens([AddedToken("[CLS]", special=True)])
    return PackageTokenizer(tokenizer.to_str().encode())


TOKENIZERS = {
    "byte level": byte_level(),
    "byte fallback": byte_fallback(),
    "metaspace": metaspace(),
    "word pieces": word_pieces(),
}


def pieces(
    tokenizer: PackageTokenizer, ids: Sequence[int], skip_special: bool = False
) -> list[str]:
    stream = TextStream(tokenizer, skip_special=skip_special)
    return [*(stream.add(token) for token in ids), stream.finish()]


@pytest.mark.parametrize("name", ["byte level", "byte fallback"])
@pytest.mark.parametrize("text", TEXTS)
def test_no_piece_ends_within_a_character(name: str, text: str) -> None:
    tokenizer = TOKENIZERS[name]
    shown = pieces(tokenizer, tokenizer.encode(text))
    assert "".join(shown) == tokenizer.decode(tokenizer.encode(text))
    if "\ufffd" not in text:
        assert not any("\ufffd" in piece for piece in shown)


def test_a_character_of_many_tokens_appears_with_its_last() -> None:
    tokenizer = TOKENIZERS["byte level"]
    ids = tokenizer.encode("🙂")
    assert len(ids) == 4
    assert pieces(tokenizer, ids) == ["", "", "", "🙂", ""]


def test_a_text_that_ends_within_a_character_shows_that() -> None:
    tokenizer = TOKENIZERS["byte level"]
    assert pieces(tokenizer, tokenizer.encode("a🙂")[:-1]) == ["a", "", "", "", "\ufffd"]


def test_a_bad_byte_spoils_its_run_and_nothing_shown_before() -> None:
    tokenizer = TOKENIZERS["byte fallback"]
    letter = tokenizer.id_of("▁a")
    assert letter is not None
    spoiled = [BYTES["<0xC3>"], BYTES["<0xA9>"], BYTES["<0xFF>"], letter]
    assert tokenizer.decode(spoiled) == "\ufffd\ufffd\ufffd a"
    assert pieces(tokenizer, spoiled) == ["", "", "", "\ufffd\ufffd\ufffd a", ""]


def test_spaces_between_words_survive_and_the_one_in_front_goes() -> None:
    tokenizer = TOKENIZERS["byte fallback"]
    ids = tokenizer.encode("a b  c")
    assert "".join(pieces(tokenizer, ids)) == "a b  c"
    assert pieces(tokenizer, ids)[0] == ""  # `▁` alone: decoders drop the first space


@settings(max_examples=400, deadline=None)
@given(
    name=st.sampled_from(sorted(TOKENIZERS)),
    ids=st.lists(st.integers(0, 330), max_size=24),
    skip_special=st.booleans(),
)
def test_pieces_together_are_the_decoded_whole(
    name: str, ids: list[int], skip_special: bool
) -> None:
    tokenizer = TOKENIZERS[name]
    shown = pieces(tokenizer, ids, skip_special)
    assert "".join(shown) == tokenizer.decode(ids, skip_special=skip_special)


@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from(["byte fallback", "metaspace"]),
    words=st.lists(st.sampled_from(["▁", "▁▁", "▁a", "a", "c", "<s>", "é", "<0xC3>", "<0xA9>"])),
    skip_special=st.booleans(),
)
def test_spaces_and_special_tokens_in_every_order(
    name: str, words: list[str], skip_special: bool
) -> None:
    tokenizer = TOKENIZERS[name]
    ids = [token for token in map(tokenizer.id_of, words) if token is not None]
    shown = pieces(tokenizer, ids, skip_special)
    assert "".join(shown) == tokenizer.decode(ids, skip_special=skip_special)


def test_ids_beyond_the_tokenizer_have_no_text() -> None:
    tokenizer = TOKENIZERS["byte level"]
    assert (
        "".join(pieces(tokenizer, [*tokenizer.encode("ab"), 9999, *tokenizer.encode("c")])) == "abc"
    )


def stopped(stops: Sequence[str], texts: Sequence[str]) -> tuple[str, str | None]:
    strings, shown = StopStrings(stops), ""
    for text in texts:
        part = strings.feed(text)
        shown += part.text
        if part.stop is not None:
            return shown, part.stop
    return shown + strings.finish(), None


@pytest.mark.parametrize(
    ("stops", "text", "expected"),
    [
        (["END"], "before END after", ("before ", "END")),
        (["END"], "END", ("", "END")),
        (["END"], "EN EEND", ("EN E", "END")),
        (["aab"], "aaab", ("a", "aab")),
        (["END"], "no en", ("no en", None)),
        (["END"], "half EN", ("half EN", None)),
        (["\n\n", "\n"], "a\n\nb", ("a", "\n")),
        (["abc", "b"], "abc", ("a", "b")),
        (["bc", "abc"], "abc", ("", "abc")),
        (["🙂"], "a🙂b", ("a", "🙂")),
        ([], "all", ("all", None)),
    ],
)
def test_text_ends_before_the_first_stop_string_however_it_is_cut(
    stops: list[str], text: str, expected: tuple[str, str | None]
) -> None:
    for size in (1, 2, 3, 100):
        cut = [text[at : at + size] for at in range(0, len(text), size)]
        assert stopped(stops, cut) == expected


def test_what_may_begin_a_stop_string_is_kept_back_and_no_more() -> None:
    strings = StopStrings(["STOP"])
    assert strings.feed("xSTS") == ("xST", None)
    assert strings.feed("T") == ("", None)
    assert strings.feed("x") == ("STx", None)
    assert strings.feed("ST") == ("", None)
    assert strings.finish() == "ST"


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(RequestError, match="empty"):
        StopStrings(["a", ""])


def test_a_stop_string_may_end_in_text_that_was_kept_back() -> None:
    tokenizer = TOKENIZERS["byte level"]
    visible = VisibleText(tokenizer, ["\ufffd"], skip_special=False)
    ids = tokenizer.encode("a🙂")[:-1]
    assert [visible.add(token).text for token in ids] == ["a", "", "", ""]
    assert visible.finish() == ("", "\ufffd")


def test_without_a_tokenizer_nothing_is_shown() -> None:
    visible = VisibleText(None, [], skip_special=False)
    assert visible.add(5) == visible.finish() == ("", None)


def test_real_tokenizers_of_golden_packages_stream() -> None:
    for file in sorted(GOLDEN.glob("*/engine/tokenizer.json"))[::8]:
        assert json.loads(file.read_text())["decoder"]["type"] == "ByteLevel"
        tokenizer = PackageTokenizer.open(file)
        ids = tokenizer.encode("<|im_start|>user\nHé 🙂<|im_end|>")
        assert "".join(pieces(tokenizer, ids)) == "<|im_start|>user\nHé 🙂<|im_end|>"
        assert "".join(pieces(tokenizer, ids, skip_special=True)) == "user\nHé 🙂"
