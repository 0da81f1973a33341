"""Differences of two tokenizer.json, by section: vocabulary, merges, added tokens, the steps."""

from collections.abc import Iterator, Sequence
from typing import Any

from masu.comparison.documents import Change, changes, shown

EXAMPLES = 3
"""Tokens that are named of a longer list."""


def tokenizer_changes(a: Any, b: Any) -> Iterator[Change]:
    """Vocabulary, merges and added tokens are counted, all other sections compared by path."""
    if not isinstance(a, dict) or not isinstance(b, dict):
        yield from changes(a, b)
        return
    a_model, b_model = (dict(_object(tokenizer.get("model"))) for tokenizer in (a, b))
    yield from _vocabulary(a_model.pop("vocab", None), b_model.pop("vocab", None))
    yield from _list("merges", a_model.pop("merges", None), b_model.pop("merges", None))
    yield from changes(a_model, b_model, "model")
    yield from _added(a.get("added_tokens"), b.get("added_tokens"))
    others_a, others_b = (
        {key: value for key, value in tokenizer.items() if key not in ("model", "added_tokens")}
        for tokenizer in (a, b)
    )
    yield from changes(others_a, others_b)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _vocabulary(a: Any, b: Any) -> Iterator[Change]:
    """Unigram models list pairs of token and score, all others map tokens to ids."""
    if not isinstance(a, dict) or not isinstance(b, dict):
        yield from _list("vocab", a, b)
        return
    yield from _sets("vocab", a, b)
    moved = [token for token, number in a.items() if token in b and b[token] != number]
    if moved:
        yield Change("vocab", f"{_named(moved)} have other ids")


def _added(a: Any, b: Any) -> Iterator[Change]:
    by_content = [{entry.get("content"): entry for entry in value or ()} for value in (a, b)]
    yield from _sets("added_tokens", *by_content)
    for content, entry in by_content[0].items():
        if content in by_content[1]:
            yield from changes(entry, by_content[1][content], f"added_tokens[{shown(content)}]")
    if not list(changes(by_content[0], by_content[1])) and a != b:
        yield Change("added_tokens", "stand in another order")


def _sets(section: str, a: dict[str, Any], b: dict[str, Any]) -> Iterator[Change]:
    for one, other, name in ((a, b, "A"), (b, a, "B")):
        own = [token for token in one if token not in other]
        if own:
            yield Change(section, f"only in {name}: {_named(own)}")


def _list(section: str, a: Any, b: Any) -> Iterator[Change]:
    """Lists whose order counts: up to where they agree, and how long each is."""
    if a == b:
        return
    if not isinstance(a, list) or not isinstance(b, list):
        yield Change(section, f"{shown(a)} in A, {shown(b)} in B")
        return
    same = next((i for i, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]), None)
    where = min(len(a), len(b)) if same is None else same
    yield Change(section, f"differ from item {where} on; {len(a)} in A, {len(b)} in B")


def _named(tokens: Sequence[str]) -> str:
    examples = ", ".join(shown(token) for token in tokens[:EXAMPLES])
    more = ", ..." if len(tokens) > EXAMPLES else ""
    return f"{len(tokens)} ({examples}{more})"
