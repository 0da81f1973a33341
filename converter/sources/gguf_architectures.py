"""The architectures that are read from GGUF files: to add one, add its names, keys and config."""

from collections.abc import Mapping
from dataclasses import dataclass

from masu.converter.sources.gguf_config import (
    ConfigBuilder,
    gemma3_config,
    llama_config,
    qwen2_config,
    qwen3_config,
)
from masu.converter.sources.gguf_keys import ArchitectureKeys, Gemma3Keys, LlamaKeys
from masu.converter.sources.gguf_names import GEMMA3, LLAMA, QWEN2, QWEN3, NameTable


@dataclass(frozen=True)
class Architecture:
    """Attributes: its tensors' names, the schema of its metadata keys, and its config.json."""

    names: NameTable
    keys: type[ArchitectureKeys]
    config: ConfigBuilder


ARCHITECTURES: Mapping[str, Architecture] = {
    "gemma3": Architecture(GEMMA3, Gemma3Keys, gemma3_config),
    "llama": Architecture(LLAMA, LlamaKeys, llama_config),
    "qwen2": Architecture(QWEN2, ArchitectureKeys, qwen2_config),
    "qwen3": Architecture(QWEN3, ArchitectureKeys, qwen3_config),
}
"""By `general.architecture`."""
