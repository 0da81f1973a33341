"""A local Hugging Face folder: its config, its text files and its safetensors weights."""

import hashlib
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from masu.converter.checkpoint import Checkpoint
from masu.converter.sources.inert_files import why_inert
from masu.converter.sources.listing import Listing, list_folder, printable_name
from masu.converter.sources.shards import open_shards, source_tensors
from masu.converter.sources.weight_files import INDEX, MAX_INDEX, WeightFiles, find_weight_files
from masu.specs.errors import ConfigError, SourceError, SourceNotFound
from masu.specs.jsonfile import read_json
from masu.specs.regular_file import read_regular

CONFIG = "config.json"
TEXTS = (
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "chat_template.jinja",
    "chat_template.json",
    "special_tokens_map.json",
    "added_tokens.json",
)

_LIMITS = {INDEX: MAX_INDEX, "tokenizer.json": 256 * 2**20, "added_tokens.json": 16 * 2**20}
_LIMIT = 4 * 2**20  # bytes of the others; real templates and configs stay far below it
_LFS_POINTER = b"version https://git-lfs"
# The closing quote may be missing: no text can make the pattern start over at every quote.
_STRING_OR_FLOAT = re.compile(
    rb'("[^"\\]*+(?:\\.[^"\\]*+)*+"?)|(-?\bInfinity\b|\bNaN\b)', re.DOTALL
)


def open_folder(path: Path) -> Checkpoint:
    """Open a local checkpoint; of its weights only the headers are read.

    Raises:
        SourceNotFound: there is no such folder, or it has no config.json.
        SourceError: whatever keeps its files from being exactly one readable checkpoint.
    """
    name = printable_name(path.resolve())
    return read_checkpoint(path, list_folder(path), name=name, where=str(path))


def read_checkpoint(path: Path, listing: Listing, *, name: str, where: str) -> Checkpoint:
    """The checkpoint in a folder of which `listing` says what belongs to it.

    Its identity has the hashes of its small files; every tensor is hashed when it is converted.
    Neither the folder's name is part of it, nor how its weights are split over files, nor what
    those files and the index say about themselves: the same weights give the same package.

    Args:
        listing: may name files that are not there, as long as none of them is needed.
        name: of the checkpoint.
        where: the folder or repository, for messages.
    """
    refuse_unreadable(listing, where)
    config = read_small(path / require_config(listing, where))
    parsed = parse_config(config, f"{where}/{CONFIG}")
    weights = find_weight_files(listing.files, lambda file: read_small(path / file), where)
    shards = open_shards(path, weights, where)
    texts = _read_texts(path, listing.files, where)
    return Checkpoint(
        name=name,
        config=parsed,
        tensors=source_tensors(shards),
        texts=texts,
        identity={
            "kind": "folder",
            "name": None,
            "revision": None,
            "files": _hashes({CONFIG: config, **texts}),
        },
        inert_files=_inert_files(listing, weights),
    )


def refuse_unreadable(listing: Listing, where: str) -> None:
    """Raise SourceError if a file that would be read is there by name only."""
    needed = {CONFIG, INDEX, *TEXTS}
    problems = [
        f"{name}: {why}"
        for name, why in listing.unreadable.items()
        if name in needed or name.endswith(".safetensors")
    ]
    if problems:
        hint = "copy or download the checkpoint again"
        raise SourceError(f"{where} is not complete", problems=problems, hint=hint)


def require_config(listing: Listing, where: str) -> str:
    """The name of the config file, which a checkpoint must have."""
    if CONFIG not in listing.files:
        ggufs = sorted(name for name in listing.files if name.endswith(".gguf"))
        raise SourceNotFound(
            f"{where} has no {CONFIG}, so it is no Hugging Face checkpoint",
            hint=f"convert a GGUF file of it by its own name: {', '.join(ggufs)}"
            if ggufs
            else f"name the folder in which {CONFIG} lies",
        )
    return CONFIG


def parse_config(data: bytes, where: str) -> dict[str, Any]:
    """config.json as a dict.

    The infinite numbers that transformers 4 writes as bare words (`Infinity`), which are not JSON,
    come as transformers 5 writes them: `{"__float__": "Infinity"}`.

    Raises:
        ConfigError: not a JSON object.
    """
    text = _STRING_OR_FLOAT.sub(lambda m: m[1] or b'{"__float__": "%s"}' % m[2], data)
    config = read_json(text, where, error=ConfigError)
    if not isinstance(config, dict):
        raise ConfigError(f"{where}: expected an object, found {type(config).__name__}")
    return config


def read_small(path: Path) -> bytes:
    """A config, index or text file, up to the size that such files have.

    Raises:
        SourceError: larger, unreadable, or a stand-in that Git LFS left.
    """
    data = read_regular(path, size_limit(path.name), error=SourceError)
    if data.startswith(_LFS_POINTER):
        raise SourceError(
            f"{path} is a Git LFS pointer, not the file itself",
            hint="run `git lfs pull` in its repository, or download the file",
        )
    return data


def size_limit(name: str) -> int:
    """The most bytes that are read of a config, index or text file."""
    return _LIMITS.get(name, _LIMIT)


def _read_texts(path: Path, names: Collection[str], where: str) -> dict[str, bytes]:
    texts: dict[str, bytes] = {}
    errors: list[SourceError] = []
    for name in TEXTS:
        if name in names:
            try:
                texts[name] = read_small(path / name)
            except SourceError as error:
                errors.append(error)
    if errors:
        raise SourceError(
            f"text files of {where} cannot be used",
            problems=[error.message for error in errors],
            hint=errors[0].hint,
        )
    return texts


def _hashes(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def _inert_files(listing: Listing, weights: WeightFiles) -> dict[str, str]:
    used = {CONFIG, *TEXTS, *weights.files} | ({INDEX} if weights.placed is not None else set())
    names = (listing.files | listing.folders) - used
    reasons = {name: why_inert(name, listing.files) for name in names}
    unreadable = {n: why for n, why in listing.unreadable.items() if n not in used}
    return dict(sorted((reasons | unreadable).items()))
