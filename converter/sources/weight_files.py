"""Which files of a folder hold the weights: those that the shard index names, or the only one.

Decided from names and the index alone, so that a repository is refused before its download.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from masu.specs.errors import SourceError
from masu.specs.jsonfile import read_json

INDEX = "model.safetensors.index.json"
MAX_INDEX = 64 * 2**20
"""Bytes; an index of a hundred thousand tensors takes about ten million."""

_SUFFIX = ".safetensors"
_SHARD = re.compile(r"model-\d{5}-of-(?P<count>\d{5})\.safetensors")
_VARIANT = re.compile(r"model\.\w+\.safetensors")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


@dataclass(frozen=True)
class WeightFiles:
    """Where the weights are said to be.

    Attributes:
        files: names of the safetensors files.
        placed: shard of each tensor by the index; None without an index.
        problems: shards that are missing, or there but not in the index.
    """

    files: tuple[str, ...]
    placed: Mapping[str, str] | None = None
    problems: tuple[str, ...] = ()


def find_weight_files(
    names: Collection[str], read: Callable[[str], bytes], where: str
) -> WeightFiles:
    """The weight files among the file names of a folder.

    Args:
        names: of all its files.
        read: contents of a file; called for the index only.
        where: the folder or repository, for messages.

    Raises:
        SourceError: no safetensors weights, several files without an index, a malformed index,
            or an adapter.
    """
    _refuse_adapter(names, where)
    if INDEX in names:
        return _named_by_index(names, read(INDEX), where)
    return WeightFiles(files=(_only_file(names, where),))


def is_duplicate(name: str, names: Collection[str]) -> bool:
    """Whether a safetensors file is known to repeat the weights of others in another form."""
    is_variant = _VARIANT.fullmatch(name) is not None and "model.safetensors" in names
    return is_variant or (name.startswith("consolidated") and name.endswith(_SUFFIX))


def _refuse_adapter(names: Collection[str], where: str) -> None:
    # transformers adds an adapter that lies beside the weights to them, without being asked.
    found = sorted(n for n in names if n.startswith(("adapter_config.", "adapter_model.")))
    if found:
        raise SourceError(
            f"{where} holds an adapter, which changes the weights: {', '.join(found)}",
            hint="merge it into its base model first (PEFT: `merge_and_unload`), or remove it",
        )


def _named_by_index(names: Collection[str], data: bytes, where: str) -> WeightFiles:
    index = read_json(data, f"{where}/{INDEX}", error=SourceError, max_bytes=MAX_INDEX)
    placed = _weight_map(index, f"{where}/{INDEX}")
    shards = tuple(sorted(set(placed.values())))
    problems = (*_missing(shards, names, placed), *_strays(shards, names))
    return WeightFiles(shards, placed, problems)


def _weight_map(index: Any, where: str) -> dict[str, str]:
    placed = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(placed, dict) or not placed:
        raise SourceError(f"{where} has no weight_map, expected tensor names with their shards")
    unusable = {repr(shard) for shard in placed.values() if not _is_shard_name(shard)}
    if unusable:
        raise SourceError(
            f"{where} names shards that are not *.safetensors files of its own folder",
            problems=sorted(unusable),
        )
    return placed


def _is_shard_name(shard: Any) -> bool:
    """Whether it is a bare file name: nothing that leads out of the folder."""
    return isinstance(shard, str) and re.fullmatch(r"[^/\\:\0]+\.safetensors", shard) is not None


def _missing(
    shards: Collection[str], names: Collection[str], placed: Mapping[str, str]
) -> Iterator[str]:
    counts = Counter(placed.values())
    for shard in shards:
        if shard not in names:
            yield f"{shard}: missing; the index places {counts[shard]} tensors there"


def _strays(shards: Collection[str], names: Collection[str]) -> Iterator[str]:
    """Files named like weights of this very model; most often left from another revision."""
    for name in sorted(set(names) - set(shards)):
        if name == "model.safetensors" or _SHARD.fullmatch(name):
            yield f"{name}: not in the index"


def _only_file(names: Collection[str], where: str) -> str:
    found = sorted(n for n in names if n.endswith(_SUFFIX) and not is_duplicate(n, names))
    if not found:
        raise _no_weights(names, where)
    shard = _SHARD.fullmatch(found[0])
    if shard is not None and int(shard["count"]) > 1:
        raise SourceError(
            f"{where} holds shards, but {INDEX} is missing", hint="copy or download it as well"
        )
    if len(found) > 1:
        raise SourceError(
            f"{where} holds several weight files, but no {INDEX}",
            problems=found,
            hint="convert a folder that holds only one of them",
        )
    return found[0]


def _no_weights(names: Collection[str], where: str) -> SourceError:
    """The error for a folder without safetensors weights, by what it holds instead."""
    ggufs = sorted(name for name in names if name.endswith(".gguf"))
    if ggufs:
        return SourceError(
            f"{where} holds no safetensors weights, but GGUF files",
            problems=ggufs,
            hint="download the one you want and convert that file",
        )
    pickles = sorted(name for name in names if name.endswith(_PICKLES))
    if pickles:
        return SourceError(
            f"{where} holds its weights only as pickles, which can run code and are never read",
            problems=pickles,
            hint="save the model as safetensors (transformers: `model.save_pretrained(folder)`)",
        )
    duplicates = sorted(name for name in names if is_duplicate(name, names))
    if duplicates:
        return SourceError(
            f"{where} holds its weights only in their author's own layout",
            problems=duplicates,
            hint="use the release in Hugging Face's layout (model.safetensors, or shards)",
        )
    return SourceError(f"{where} holds no weights: expected model.safetensors or {INDEX}")
