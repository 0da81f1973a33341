"""Refuses a template that could build a value which grows without its counters noticing.

The instructions and the output of a template are counted, but a list that holds the same list
twice, thirty times over, is made in thirty instructions and has a billion entries when it is
printed; a namespace that holds itself has no end, and printing it ends the process.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from masu.specs.errors import TextError
from masu.specs.text.template_repeats import check_repeats
from masu.specs.text.template_sums import doubled

MAX_COPIES = 10_000
"""How often a value may come to lie in another one through literals."""

_TAG = re.compile(r"\{#.*?#\}|\{[{%][-+]?(.*?)[-+]?[%}]\}", re.DOTALL)
_STRING = r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+\""""
_TOKEN = re.compile(rf"{_STRING}|\w+|\S", re.DOTALL)
_FORMAT = re.compile(rf"({_STRING})?\s*+\)?\.\s*+format\b", re.DOTALL)
_WIDTH = re.compile(r"\{[^{}]*(?:\d{4}|\{)")
_NAME = re.compile(r"[A-Za-z_]\w*")


def check_growth(source: str) -> None:
    """Raises TextError; templates in use do none of this."""
    for match in _FORMAT.finditer(source):
        if match[1] is None or _WIDTH.search(match[1]):
            raise TextError("the chat template calls `format` on what is no short, plain text")
    tags = [_TOKEN.findall(found[1]) for found in _TAG.finditer(source) if found[1]]
    _Growth([tag for tag in tags if tag]).check()
    macros = {tag[1] for tag in tags if tag[:1] == ["macro"] and len(tag) > 1}
    check_repeats(tags, macros | {"loop"})


class _Growth:
    """What the names of a template may hold, whatever its branches do.

    Args:
        tags: the tokens of every tag.
    """

    def __init__(self, tags: list[list[str]]) -> None:
        self._tags = tags
        self._spaces = {t[1] for t in tags if t[:1] == ["set"] and "namespace" in t[3:4]}
        self._kept = self._closure("set", self._spaces)  # may hold what a namespace held before
        self._fed = self._feeding()
        self._looped = self._closure("for", self._kept) - self._kept
        macros = [t for t in tags if t[0] == "macro" and len(t) > 1]
        self._macros = {t[1] for t in macros} | {"loop"}
        self._parameters = {name for t in macros for name in _names(t[2:])}
        self._parameters |= {t[1] for t in tags if t[:1] == ["for"] and t[-1] == "recursive"}

    def check(self) -> None:
        copies: dict[str, int] = {}
        for tag in self._tags:
            inside = list(_in_literals(tag))
            self._refuse_self(tag)
            self._refuse_sums(tag)
            for name, depth, call in inside:
                again = call in self._macros and name in self._parameters
                if name in self._kept or again or (name in self._looped and depth > 1):
                    raise TextError(f"the chat template puts {name!r} into itself, over and over")
            if tag[:1] == ["set"] and len(tag) > 1:
                count = sum(copies.get(name, 1) for name, _, _ in inside)
                within = [copies.get(name, 1) for name in _names(tag[2:])]
                own = within if doubled(tag[2:], {tag[1], *copies}) else [max(within, default=1)]
                plain = sum(own)
                copies[tag[1]] = max(copies.get(tag[1], 1), count, plain)
                if copies[tag[1]] > MAX_COPIES:
                    raise TextError(f"the chat template puts too many copies into {tag[1]!r}")

    def _refuse_self(self, tag: list[str]) -> None:
        """A namespace may be read by its attributes, and handed on in no other way."""
        for place, (token, following) in enumerate(zip(tag, [*tag[1:], ""], strict=True)):
            before = tag[place - 1] if place else ""
            is_target = tag[0] == "set" and place == 1
            if token in self._spaces and following != "." and before != "." and not is_target:
                raise TextError(f"the chat template hands on the namespace {token!r} as a whole")

    def _refuse_sums(self, tag: list[str]) -> None:
        """What a namespace keeps, or a macro hands to itself, may be added to once at a time."""
        again = any(call in self._macros and after == "(" for call, after in pairwise(tag))
        names = (self._kept & self._fed) | self._spaces if tag[0] == "set" else set[str]()
        if again:
            names |= self._parameters
        value = tag[tag.index("=") + 1 :] if tag[0] == "set" and "=" in tag else tag
        if (found := doubled(value, names)) is not None:
            raise TextError(f"the chat template adds {found!r} to itself, over and over")

    def _feeding(self) -> set[str]:
        """Names that what a namespace holds is made of."""
        known = set(self._spaces)
        while True:
            sets = [tag for tag in self._tags if tag[0] == "set" and tag[1:2] and tag[1] in known]
            more = {name for tag in sets for name in _names(tag[2:])}
            if more <= known:
                return known
            known |= more

    def _closure(self, keyword: str, names: set[str]) -> set[str]:
        """Names that get their value, by this kind of tag, from one of these."""
        known = set(names)
        while True:
            more = {
                tag[1]
                for tag in self._tags
                if tag[0] == keyword and len(tag) > 1 and known & {*_names(tag[2:])}
            }
            if more <= known:
                return known
            known |= more


def _names(tokens: Iterable[str]) -> Iterator[str]:
    return (token for token in tokens if _NAME.fullmatch(token))


def _in_literals(tag: list[str]) -> Iterator[tuple[str, int, str]]:
    """Each name inside a list or dict literal, how deep in literals, and in a call of what."""
    stack: list[tuple[bool, str]] = []  # (is a literal, called name) of each open bracket
    before = ""
    for token, following in zip(tag, [*tag[1:], ""], strict=True):
        follows_value = _NAME.fullmatch(before) is not None or before in (")", "]", "}")
        if token in ("[", "{"):
            is_index = follows_value and before not in ("in", "if", "else", "and", "or", "not")
            stack.append((token == "{" or not is_index, ""))
        elif token == "(":
            stack.append((before in ("dict", "namespace"), before if follows_value else ""))
        elif token in (")", "]", "}") and stack:
            stack.pop()
        elif _NAME.fullmatch(token) and before not in (".", "|") and following != "=":
            depth = sum(literal for literal, _ in stack)
            if depth:
                yield token, depth, next((name for _, name in reversed(stack) if name), "")
        before = token
