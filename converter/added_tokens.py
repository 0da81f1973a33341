"""Added tokens: three files may list them, and they must agree on every id."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Tokenizer

from masu.specs.errors import TextError

FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


@dataclass(frozen=True)
class Declared:
    """One added token as one file declares it; `flags` is None where the file has none."""

    id: int
    content: str
    flags: Mapping[str, bool] | None
    where: str


def merge_added_tokens(
    tokenizer: Tokenizer, tokenizer_json: Any, tokenizer_config: Any, added_tokens: Any
) -> None:
    """Add to `tokenizer` what the other two files declare, under the declared ids.

    The flags of tokenizer_config.json win over those of tokenizer.json, as in transformers.

    Raises:
        TextError: files that give one token two ids, or one id two tokens.
    """
    try:
        declared = list(_declarations(tokenizer_json, tokenizer_config, added_tokens))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TextError(f"the lists of added tokens are malformed: {error!r}") from None
    problems = [*_contradictions(declared), *_against_vocabulary(tokenizer, declared)]
    if problems:
        raise TextError(
            "the tokenizer files contradict each other:",
            problems=problems,
            hint="restore the tokenizer files that the model was trained with",
        )
    for token in sorted(declared, key=lambda token: token.id):
        if token.where != "tokenizer.json":
            _add(tokenizer, token)
    _check_ids(tokenizer, declared)


def _declarations(tokenizer_json: Any, tokenizer_config: Any, added: Any) -> Iterator[Declared]:
    for entry in tokenizer_json.get("added_tokens") or ():
        flags = {flag: bool(entry[flag]) for flag in FLAGS}
        yield Declared(entry["id"], entry["content"], flags, "tokenizer.json")
    for token_id, entry in (tokenizer_config.get("added_tokens_decoder") or {}).items():
        flags = {flag: bool(entry.get(flag, False)) for flag in FLAGS}
        yield Declared(int(token_id), _text(entry["content"]), flags, "tokenizer_config.json")
    for content, token_id in (added or {}).items():
        yield Declared(_id(token_id), content, None, "added_tokens.json")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {value!r}")
    return value


def _id(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"expected an id, found {value!r}")
    return value


def _contradictions(declared: list[Declared]) -> Iterator[str]:
    ids: dict[str, Declared] = {}
    contents: dict[int, Declared] = {}
    for token in declared:
        first = ids.setdefault(token.content, token)
        if first.id != token.id:
            yield (
                f"{token.content!r} has id {first.id} in {first.where} "
                f"and id {token.id} in {token.where}"
            )
        other = contents.setdefault(token.id, token)
        if other.content != token.content:
            yield (
                f"id {token.id} is {other.content!r} in {other.where} "
                f"and {token.content!r} in {token.where}"
            )


def _against_vocabulary(tokenizer: Tokenizer, declared: list[Declared]) -> Iterator[str]:
    for token in declared:
        known = tokenizer.token_to_id(token.content)
        if known is not None and known != token.id:
            yield (
                f"{token.content!r} has id {known} in tokenizer.json's vocabulary "
                f"and id {token.id} in {token.where}"
            )


def _add(tokenizer: Tokenizer, token: Declared) -> None:
    if token.flags is None:
        if tokenizer.token_to_id(token.content) is None:
            tokenizer.add_tokens([AddedToken(token.content, normalized=False)])
        return
    flags = dict(token.flags)
    added = AddedToken(token.content, **flags)
    if flags["special"]:
        tokenizer.add_special_tokens([added])
    else:
        tokenizer.add_tokens([added])


def _check_ids(tokenizer: Tokenizer, declared: list[Declared]) -> None:
    """A token appended to the vocabulary gets the next free id, which must be the declared one."""
    problems = [
        f"{token.content!r} is declared with id {token.id} in {token.where}, "
        f"but only id {tokenizer.token_to_id(token.content)} is free for it"
        for token in declared
        if tokenizer.token_to_id(token.content) != token.id
    ]
    if problems:
        raise TextError(
            "added tokens do not fit the vocabulary:",
            problems=sorted(set(problems)),
            hint="the ids of added tokens must follow the vocabulary without a gap",
        )
