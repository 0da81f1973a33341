"""The vocabulary of a GGUF file: tokens, what kind each is, and the keys that go with them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import gguf
import numpy as np
from pydantic import Field

from masu.converter.sources.gguf_keys import SectionKeys, read_keys
from masu.converter.sources.gguf_pretokenizers import PRE_TOKENIZERS
from masu.specs.errors import TextError

TokenId = Annotated[int, Field(ge=0, lt=2**31)]
Off = Literal[False]

PREFIX = "tokenizer."
_INFILL = "for filling in the middle of a text, which is no part of a package"
SPECIAL = (gguf.TokenType.CONTROL, gguf.TokenType.UNKNOWN)
ADDED = (*SPECIAL, gguf.TokenType.USER_DEFINED)
"""Kinds that are cut out of the text before anything else happens to it."""


class TokenizerKeys(SectionKeys):
    INERT: ClassVar[Mapping[str, str]] = {
        "huggingface.json": "the tokenizer is rebuilt from tokenizer.ggml",
        "chat_templates": "lists the templates that have a name",
        **{
            f"ggml.{part}_token_id": _INFILL
            for part in (
                *(f"fim_{part}" for part in ("pre", "suf", "mid", "pad", "rep", "sep")),
                *("prefix", "suffix", "middle"),
            )
        },
    }

    model: Literal["gpt2", "llama"] = Field(alias="ggml.model")
    pre: str | None = Field(None, alias="ggml.pre")
    tokens: list[str] = Field(alias="ggml.tokens")
    token_type: np.ndarray | None = Field(None, alias="ggml.token_type")
    scores: np.ndarray | None = Field(None, alias="ggml.scores")
    merges: list[str] | None = Field(None, alias="ggml.merges")

    bos: TokenId | None = Field(None, alias="ggml.bos_token_id")
    eos: TokenId | None = Field(None, alias="ggml.eos_token_id")
    eot: TokenId | None = Field(None, alias="ggml.eot_token_id")
    eom: TokenId | None = Field(None, alias="ggml.eom_token_id")
    unknown: TokenId | None = Field(None, alias="ggml.unknown_token_id")
    padding: TokenId | None = Field(None, alias="ggml.padding_token_id")
    # The specification's own spelling.
    separator: TokenId | None = Field(None, alias="ggml.seperator_token_id")
    classifier: TokenId | None = Field(None, alias="ggml.cls_token_id")
    mask: TokenId | None = Field(None, alias="ggml.mask_token_id")

    add_bos: bool | None = Field(None, alias="ggml.add_bos_token")
    add_eos: bool = Field(False, alias="ggml.add_eos_token")
    add_separator: Off = Field(False, alias="ggml.add_sep_token")
    add_space_prefix: bool = Field(True, alias="ggml.add_space_prefix")
    remove_extra_whitespaces: Off = Field(False, alias="ggml.remove_extra_whitespaces")
    token_type_count: Literal[1] = Field(1, alias="ggml.token_type_count")
    chat_template: str | None = None


@dataclass(frozen=True)
class Vocabulary:
    """Tokens by id, all different, each with its kind, and the ids that have a role.

    Attributes:
        kinds: a `gguf.TokenType` per token.
        templates: chat templates by name; that without one is `default`.
        add_bos: whether text begins with the begin token.
    """

    keys: TokenizerKeys
    tokens: list[str]
    kinds: list[int]
    templates: Mapping[str, str]
    add_bos: bool

    def roles(self) -> dict[str, int]:
        """Ids by the role's name in tokenizer_config.json."""
        keys = self.keys
        found = {
            "bos_token": keys.bos,
            "eos_token": keys.eos,
            "unk_token": keys.unknown,
            "pad_token": keys.padding,
            "sep_token": keys.separator,
            "cls_token": keys.classifier,
            "mask_token": keys.mask,
        }
        return {role: index for role, index in found.items() if index is not None}


def read_vocabulary(
    metadata: Mapping[str, Any], rows: int, where: str
) -> tuple[Vocabulary, dict[str, str]]:
    """The vocabulary of a file and its inert keys, with the reasons.

    Args:
        rows: how many tokens the embedding has.
        where: the file, for messages.

    Raises:
        TextError: keys that are missing or refused, or that contradict each other.
    """
    named, others = _split_templates(metadata)
    keys, inert = read_keys(TokenizerKeys, others, PREFIX, where, error=TextError)
    problems = [*_problems(keys, rows), *_template_problems(named)]
    if problems:
        raise TextError(f"{where} has a tokenizer that cannot be rebuilt:", problems=problems)
    default = {} if keys.chat_template is None else {"default": keys.chat_template}
    vocabulary = Vocabulary(
        keys=keys,
        # llama.cpp gives a name to a token without text, too.
        tokens=[token or f"[EMPTY_{index}]" for index, token in enumerate(keys.tokens)],
        kinds=_kinds(keys),
        templates={**default, **named},
        add_bos=_adds_bos(keys),
    )
    duplicates = list(_duplicates(vocabulary.tokens))
    if duplicates:
        raise TextError(f"{where} has tokens that appear twice:", problems=first(duplicates))
    return vocabulary, {**inert, **_unread(metadata, keys.model)}


def first(problems: list[str]) -> list[str]:
    """The problems, but no more than a screen of them."""
    more = len(problems) - 20
    return [*problems[:20], f"... and {more} more"] if more > 0 else problems


def _unread(metadata: Mapping[str, Any], model: str) -> dict[str, str]:
    """Keys of the other kind of tokenizer, which some files have too."""
    names = {"gpt2": ("scores", "add_space_prefix"), "llama": ("merges", "pre")}[model]
    reason = f"no part of a tokenizer of the kind {model}"
    keys = (f"{PREFIX}ggml.{name}" for name in names)
    return {key: reason for key in keys if key in metadata}


def _split_templates(metadata: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    prefix = f"{PREFIX}chat_template."
    named = {k.removeprefix(prefix): v for k, v in metadata.items() if k.startswith(prefix)}
    return named, {k: v for k, v in metadata.items() if not k.startswith(prefix)}


def _template_problems(named: Mapping[str, Any]) -> Iterator[str]:
    for name, template in named.items():
        if not isinstance(template, str):
            yield f"tokenizer.chat_template.{name}: expected text, found {type(template).__name__}"


def _problems(keys: TokenizerKeys, rows: int) -> Iterator[str]:
    count = len(keys.tokens)
    if count != rows:
        yield f"tokenizer.ggml.tokens: expected {rows}, one per row of the embedding, found {count}"
    for name, values in (("token_type", keys.token_type), ("scores", keys.scores)):
        if values is not None and values.shape != (count,):
            yield f"tokenizer.ggml.{name}: expected {count} numbers, found {len(values)}"
    if keys.token_type is not None:
        unknown = set(np.unique(keys.token_type).tolist()) - {*gguf.TokenType}
        if unknown:
            yield f"tokenizer.ggml.token_type: unknown kinds {sorted(unknown)}"
    for name, field in TokenizerKeys.model_fields.items():
        index = getattr(keys, name)
        if str(field.alias).endswith("_token_id") and index is not None and index >= count:
            yield f"tokenizer.{field.alias}: expected an id below {count}, found {index}"
    yield from _problems_of_model(keys)


def _problems_of_model(keys: TokenizerKeys) -> Iterator[str]:
    if keys.model == "gpt2":
        if keys.merges is None:
            yield "tokenizer.ggml.merges: expected the pairs to merge, found no such key"
        if keys.pre not in PRE_TOKENIZERS:
            known = ", ".join(PRE_TOKENIZERS)
            yield f"tokenizer.ggml.pre: expected one of {known}, found {keys.pre!r}"
    elif keys.scores is None or not np.isfinite(keys.scores).all():
        yield "tokenizer.ggml.scores: expected a finite score for each token"
    if keys.add_eos and keys.eos is None:
        yield "tokenizer.ggml.eos_token_id: expected an id, because add_eos_token is true"
    if _adds_bos(keys) and keys.bos is None:
        yield "tokenizer.ggml.bos_token_id: expected an id, because text begins with that token"


def _adds_bos(keys: TokenizerKeys) -> bool:
    if keys.add_bos is not None:
        return keys.add_bos
    pre = PRE_TOKENIZERS.get(keys.pre or "")
    return keys.model == "llama" or (pre is not None and pre.add_bos)


def _kinds(keys: TokenizerKeys) -> list[int]:
    if keys.token_type is None:
        return [gguf.TokenType.NORMAL] * len(keys.tokens)
    return keys.token_type.tolist()


def _duplicates(tokens: list[str]) -> Iterator[str]:
    ids: dict[str, int] = {}
    for index, token in enumerate(tokens):
        if ids.setdefault(token, index) != index:
            yield f"{token!r} has the ids {ids[token]} and {index}"
