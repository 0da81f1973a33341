"""What every source looks like to the rest of the converter: config, text files, lazy tensors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from masu.specs.stream import FileRange
from masu.specs.tensors import Shape

SYSTEM_PROMPT = "SYSTEM_PROMPT.txt"
"""The default system prompt, among the texts of checkpoints whose entry names such a file."""


@dataclass(frozen=True, kw_only=True)
class SourceTensor:
    """One tensor of a checkpoint under its Hugging Face name, read only when asked.

    Attributes:
        dtype: element type by its safetensors name; that of `read`'s result.
        shape: full shape.
        location: where it lies, for messages (`model-00001-of-00002.safetensors`).
        read: rows `start..stop` of the first axis.
        raw: the stretch of a file that holds exactly these values in C order, if there is one.
        stored: the stretch of a file that holds the tensor in whatever encoding; what is hashed.
        decoded_from: the quantised type that `read` decodes (`Q4_1`), None for plain floats.
    """

    name: str
    dtype: str
    shape: Shape
    location: str
    read: Callable[[int, int], np.ndarray]
    stored: FileRange
    raw: FileRange | None = None
    decoded_from: str | None = None


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """An opened source. Config and texts are parsed; no weight has been read.

    Attributes:
        name: how messages and default output folders call it.
        config: config.json, as a dict (GGUF: the equivalent, rebuilt).
        tensors: every tensor, by Hugging Face name.
        texts: tokenizer and template files by their Hugging Face names, as raw bytes
            (`tokenizer.json`, `tokenizer_config.json`, `generation_config.json`,
            `chat_template.jinja`, `chat_template.json`, `special_tokens_map.json`,
            `added_tokens.json`, `SYSTEM_PROMPT`).
        text_origins: where those of the texts were that the checkpoint itself does not have.
        inert_files: other files of the folder that the conversion does not use, with the reason.
        identity: where the weights came from, for the manifest: no paths, no times.
        inert_keys: metadata of the source that plays no part (GGUF keys), with the reason.
        parts: the stored tensors behind those of `tensors` that are made of several.
        keeps_codes: whether codes of quantised matrices are kept if nobody says otherwise.
    """

    name: str
    config: Mapping[str, Any]
    tensors: Mapping[str, SourceTensor]
    texts: Mapping[str, bytes]
    identity: Mapping[str, Any]
    inert_files: Mapping[str, str] = field(default_factory=dict)
    inert_keys: Mapping[str, str] = field(default_factory=dict)
    text_origins: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    keeps_codes: bool = True

    def where(self, text: str) -> str:
        """The place of one of the texts, for messages."""
        return self.text_origins.get(text, f"{self.name}: {text}")
