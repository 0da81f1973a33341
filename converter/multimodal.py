"""A multimodal config: the language model's own part, and an account of the keys around it."""

import re
from collections.abc import Mapping
from typing import Any

from masu.converter.config import INERT_KEYS
from masu.converter.family import Family
from masu.specs.errors import ConfigError
from masu.specs.manifest import LedgerEntry

TOWER = re.compile(
    r"(vision|image|video|audio|speech|boi|eoi|boa|eoa|mm|multimodal|projector|spatial)_\w+"
    r"|out_hidden_size"
)
"""Keys that describe the other towers, their tokens and the projection from them."""


def language_config(family: Family[Any], raw: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """The part of config.json that describes the language model; all of it, if there is no other.

    A tie is that of the whole model, if it says one (transformers 5, `tie_weights`).

    Raises:
        ConfigError: the part is no object, or a key around it is not known to be harmless.
    """
    if family.text_config is None or family.text_config not in raw:
        return raw
    inner = raw[family.text_config]
    if not isinstance(inner, dict):
        raise ConfigError(
            f"{where}: config.json: {family.text_config}: expected an object, found {inner!r}"
        )
    unknown = [key for key in _outer(family, raw) if _entry(key) is None]
    if unknown:
        raise ConfigError(
            f"{where}: config.json has keys beside {family.text_config} that are not read:",
            problems=[f"{key}: expected no such key, found {raw[key]!r:.80}" for key in unknown],
            hint="a key of another tower belongs in converter/multimodal.py",
        )
    tied = raw.get("tie_word_embeddings")
    return inner if tied is None else {**inner, "tie_word_embeddings": tied}


def outer_entries(family: Family[Any], raw: Mapping[str, Any]) -> dict[str, LedgerEntry]:
    """What became of each key around the language model's part; empty if there is none."""
    entries = {key: _entry(key) for key in _outer(family, raw)}
    return {f"{key} (outer)": entry for key, entry in entries.items() if entry is not None}


def _outer(family: Family[Any], raw: Mapping[str, Any]) -> list[str]:
    if family.text_config is None or family.text_config not in raw:
        return []
    return sorted(raw.keys() - {family.text_config})


def _entry(key: str) -> LedgerEntry | None:
    if key == "tie_word_embeddings":
        return LedgerEntry(status="used", into=("config.json",), reason=None)
    if key == "torch_dtype" or key in INERT_KEYS:
        reason = INERT_KEYS.get(key, INERT_KEYS["dtype"])
        return LedgerEntry(status="inert", into=(), reason=reason)
    if TOWER.fullmatch(key):
        reason = "of the other towers; the package is text only"
        return LedgerEntry(status="left_out", into=(), reason=reason)
    return None
