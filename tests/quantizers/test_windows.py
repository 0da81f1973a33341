"""Windows of a text: what is read, what is predicted, and what is put before it."""

from itertools import chain

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from masu.quantizers.windows import NamedText, WindowedText
from masu.specs.errors import RequestError
from masu.specs.text.tokenizer import PackageTokenizer

WORDS = ["<s>", "</s>", *"abcdefghij"]
TEXT = NamedText("letters", "a b c d e f g h i j")


def tokenizer(template: str) -> PackageTokenizer:
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<s>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    made.add_special_tokens(["<s>", "</s>"])
    ends = [("<s>", 0), ("</s>", 1)]
    made.post_processor = processors.TemplateProcessing(template, special_tokens=ends)  # type: ignore[assignment]
    return PackageTokenizer(made.to_str().encode())


@pytest.mark.parametrize(("template", "begin"), [("$A", []), ("<s> $A", [0]), ("<s> $A </s>", [0])])
@pytest.mark.parametrize("longest", [None, 4, 5, 6, 11])
def test_every_token_stands_in_one_window(
    template: str, begin: list[int], longest: int | None
) -> None:
    """Behind the tokens that begin a text, and none that ends one."""
    text = WindowedText.of(TEXT, tokenizer(template), 12, longest)
    starts = [list(window.ids[: window.begin]) for window in text.windows]
    assert starts == [begin] * len(text.windows)
    assert all(len(window.ids) <= (longest or 512) for window in text.windows)
    read = chain.from_iterable(window.ids[window.begin :] for window in text.windows)
    expected = list(range(2, 12))
    # A last token alone could be predicted from nothing.
    assert list(read) in (expected, expected[:-1] if not begin else expected)
    for window in text.windows:
        assert window.ids[window.begin] == expected[window.start]


def test_positions_are_the_tokens_that_something_stands_before() -> None:
    plain = WindowedText.of(TEXT, tokenizer("$A"), 12, 5)
    begun = WindowedText.of(TEXT, tokenizer("<s> $A"), 12, 6)
    assert (plain.record.windows, plain.record.positions) == (2, 8)
    assert (begun.record.windows, begun.record.positions) == (2, 10)


def test_tokens_beyond_the_vocabulary_are_counted() -> None:
    text = WindowedText.of(TEXT, tokenizer("$A"), 8, None)
    assert (text.record.tokens, text.record.left_out) == (6, 4)


def test_a_context_that_holds_no_prediction_is_refused() -> None:
    with pytest.raises(RequestError, match="too short"):
        WindowedText.of(TEXT, tokenizer("<s> $A"), 12, 2)
