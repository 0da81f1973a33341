"""A GGUF file as a checkpoint: the same view that a Hugging Face folder gives."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from masu.converter.checkpoint import Checkpoint
from masu.converter.sources.gguf_architectures import ARCHITECTURES, Architecture
from masu.converter.sources.gguf_header import GGUFFile, read_header
from masu.converter.sources.gguf_keys import (
    GeneralKeys,
    SamplingKeys,
    SplitKeys,
    read_keys,
)
from masu.converter.sources.gguf_names import ROPE_FACTORS, assign
from masu.converter.sources.gguf_tensors import read_values, source_tensors
from masu.converter.sources.gguf_text import generation_config, tokenizer_config
from masu.converter.sources.gguf_tokenizer import tokenizer_json
from masu.converter.sources.gguf_vocabulary import PREFIX, Vocabulary, read_vocabulary
from masu.specs.errors import UnknownFamily

GENERAL, SAMPLING, SPLIT = "general.", "general.sampling.", "split."


def open_gguf(path: Path) -> Checkpoint:
    """Open a GGUF file of one of the `ARCHITECTURES`; reads its header only.

    Quantised tensors are decoded to float32 as they are read, a few rows at a time; those of
    Q4_0, Q4_1 and Q8_0 can also be asked for their codes (`converter/quantised/gguf.py`). What
    llama.cpp changed when it wrote the file is undone: the order of Llama's query and key rows,
    and the 1 added to Gemma's norms.

    Raises:
        SourceNotFound: there is no such file.
        SourceError: not a sound GGUF file.
        UnknownFamily: an architecture that is not read from GGUF.
        ConfigError: metadata that are missing, contradictory, or not served.
        TensorMismatch: tensors that the architecture does not have.
        TextError: a tokenizer that cannot be rebuilt.
    """
    file = read_header(path)
    where = path.name
    # First, because a part may have no other keys.
    _, split_inert = read_keys(SplitKeys, file.metadata, SPLIT, where)
    general, _ = read_keys(GeneralKeys, file.metadata, GENERAL, where)
    architecture = _architecture(general.architecture, where)
    prefix = f"{general.architecture}."
    keys, model_inert = read_keys(architecture.keys, file.metadata, prefix, where)
    rows = assign(file.tensors, architecture.names, where)
    config = architecture.config(keys, file.tensors, _rope_factors(file))
    vocabulary, text_inert = read_vocabulary(file.metadata, config["vocab_size"], where)
    sampling, sampling_inert = read_keys(SamplingKeys, file.metadata, SAMPLING, where)
    others = _others(file.metadata, (prefix, PREFIX, SPLIT, SAMPLING))
    return Checkpoint(
        name=path.stem,
        config={**config, **_token_ids(vocabulary)},
        tensors=source_tensors(file, rows, config),
        texts=_texts(vocabulary, keys.context_length, sampling),
        # Every tensor is hashed when it is converted; this is the rest of the file.
        identity=_identity({"header": file.header_sha256}),
        keeps_codes=False,
        inert_keys={**others, **split_inert, **model_inert, **text_inert, **sampling_inert},
    )


def _texts(vocabulary: Vocabulary, context_length: int, sampling: SamplingKeys) -> dict[str, bytes]:
    return {
        "tokenizer.json": tokenizer_json(vocabulary),
        "tokenizer_config.json": tokenizer_config(vocabulary, context_length),
        "generation_config.json": generation_config(vocabulary, sampling),
    }


def _identity(hashes: Mapping[str, str]) -> dict[str, Any]:
    return {"kind": "gguf", "name": None, "revision": None, "files": hashes}


def _architecture(name: str, where: str) -> Architecture:
    if name not in ARCHITECTURES:
        raise UnknownFamily(
            f"{where}: general.architecture: expected one of {', '.join(ARCHITECTURES)}, "
            f"found {name!r}",
            hint="convert the Hugging Face checkpoint of this model instead",
        )
    return ARCHITECTURES[name]


def _rope_factors(file: GGUFFile) -> np.ndarray | None:
    tensor = file.tensors.get(ROPE_FACTORS)
    return None if tensor is None else read_values(file.path, tensor, 0, tensor.shape[0])


def _token_ids(vocabulary: Vocabulary) -> dict[str, int]:
    keys = vocabulary.keys
    ids = {"bos_token_id": keys.bos, "eos_token_id": keys.eos, "pad_token_id": keys.padding}
    return {key: index for key, index in ids.items() if index is not None}


def _others(metadata: Mapping[str, Any], read: tuple[str, ...]) -> dict[str, str]:
    """The keys of sections that are not read, which llama.cpp does not read either."""
    used = {f"{GENERAL}{key}" for key in (*GeneralKeys.model_fields, "alignment")}
    return {key: _reason(key) for key in metadata if key not in used and not key.startswith(read)}


def _reason(key: str) -> str:
    if key == "general.file_type":
        return "each tensor carries its own type"
    if key.startswith(GENERAL):
        return "describes the file or where it came from"
    return "not in a section from which an engine reads the model"
