"""Patterns of tokenizers: those in use pass, and none that passes takes the square of a run."""

import random

import pytest
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from masu.converter.sources.gguf_pretokenizers import PRE_TOKENIZERS
from masu.specs.errors import TextError
from masu.specs.text.pattern_work import repeats_of

LOWER, UPPER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
IN_USE = {
    "gpt-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "gpt-4": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++"
    r"[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    "llama-3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "o200k": rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{{N}}{{1,3}}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "deepseek-v3": r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?"
    r"[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "han": r"[\p{Han}]+|[\p{Lu}\p{L}&&[^\p{Han}]]*[\p{Ll}&&[^\p{Han}]]+",
    "bloom": r" ?[^(\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+",
    "clip": r"<\|endoftext\|>|'s|'t|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    "spaces": r" {2,}",
    "ends": r"^\s+|\s+$",
    "digits": r"\d{1,3}(?=(?:\d{3})*\b)",
}

COSTLY = {
    r"a*a*b": "2 repeats in a row",
    r"\s*[\r\n]+\s*x": "3 repeats in a row",
    r"(?:a+)?(?:b+)?c": "2 repeats in a row",
    r"(?=a*b)a*c": "2 repeats in a row",
    r"a{0,100}a{2,}b": "2 repeats in a row",
    r"(a+)+b": "can match in several ways",
    r"(?:a|a)*b": "can match in several ways",
    r"(?:a?){30}b": "can match in several ways",
    r"(?:(?:ab?){2})+c": "can match in several ways",
    "a?" * 30 + "b": "ways to match at one place",
    "(a|b|a)" * 8 + "c": "ways to match at one place",
    r"(a|b+)" * 9 + "c": "alternatives with repeats",
    r"a{1,9}+b": "can match in several ways",
    r"(?:a*a*b)*": "2 repeats in a row",
    r"(?:(?:a+)+b)*": "can match in several ways",
    r"a{}b": "read in several ways",
    r"a{1,9}{1,}b": "quantifies a quantifier",
    r"(a*)\1b": "not followed",
    r"(?<x>a\g<x>?a?)b": "not followed",
    r"(?x)a #(b": "not followed",
    r"a(?i)b|c": "not followed",
    r"(?~a)b": "not followed",
    r"(*FAIL)": "not followed",
    "(" * 50 + ")" * 50: "nested deeper",
    r"a)": "not open",
    r"(a": "does not close",
    "a" * 20_001: "at most 20,000",
}


REBUILT = {pattern for pre in PRE_TOKENIZERS.values() for pattern in pre.patterns}
"""Those that are written for a GGUF file."""


@pytest.mark.parametrize("pattern", [*IN_USE.values(), *sorted(REBUILT)])
def test_patterns_in_use_give_back_one_repeat_at_most(pattern: str) -> None:
    repeats_of(pattern, "here")
    Regex(pattern)  # the library reads it too, so that it says something of a real pattern


@pytest.mark.parametrize(("pattern", "reason"), COSTLY.items(), ids=range(len(COSTLY)))
def test_what_can_take_longer_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(TextError, match=reason):
        repeats_of(pattern, "here")


@pytest.mark.parametrize(
    ("pattern", "repeats"),
    [
        (r"\s+(?!\S)|\s*[\r\n]+|\p{L}+", [r"\s"]),
        (r"a*a*", []),  # nothing can fail after them
        (r"a++b", []),
        (r"(?:ab)+c|[a\]]*d", [None, r"[a\]]"]),
        (r"a{2,3}b", []),
        (r"x|a{1,3}+|(?:a|b)*", []),
        (r"(?:a+b|c)*", ["a"]),
        (r"\x61*b", [r"\x61"]),
    ],
)
def test_repeats_that_can_be_given_back_are_named(pattern: str, repeats: list) -> None:
    assert repeats_of(pattern, "here") == repeats


def made_up(chance: random.Random, depth: int = 3) -> str:
    """A pattern of nested groups, alternatives and quantifiers."""
    made = ""
    for _ in range(chance.randrange(1, 5)):
        part = chance.choice(["a", "b", "[ab]", "[^b]", "a", "."])
        if depth and chance.random() < 0.35:
            opening = chance.choice(["(", "(?:", "(?>", "(?=", "(?!", "(?i:"])
            part = f"{opening}{made_up(chance, depth - 1)})"
        made += part + chance.choice(["", "", "", "?", "*", "+", "{2}", "{1,3}", "{0,99}", "*+"])
        made += "|" if chance.random() < 0.1 else ""
    return made


def reaches_the_limit(pattern: str, length: int) -> bool:
    """The engine gives up after ten million steps back in one match; so much takes a moment."""
    text = "a" * length + "bc"
    try:
        Split(Regex(rf"\A(?:{pattern})(?=c)"), "isolated").pre_tokenize_str(text)
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        return True
    return False


def test_no_accepted_pattern_reaches_the_limit_of_the_engine() -> None:
    chance, accepted = random.Random(3), 0
    while accepted < 150:
        pattern = made_up(chance)
        try:
            repeats_of(rf"\A(?:{pattern})(?=c)", "here")
            Regex(pattern)
        except Exception:  # refused, or no pattern to the library
            continue
        accepted += 1
        assert not reaches_the_limit(pattern, 6_000), pattern


def test_the_engine_has_that_limit(capfd: object) -> None:
    """Otherwise the test above could not fail."""
    assert reaches_the_limit("(?:a{1,9})+", 30)
