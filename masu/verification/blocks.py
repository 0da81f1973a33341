"""The blocks that a network is compared by: its entry, each layer, and its exit."""

from collections.abc import Mapping
from typing import Any

from masu.specs.model import TextModelConfig

EXIT = "logits"
"""The last block: the output norm and the readout, or what gives a classifier its labels."""

_ENTRY = ("embedding_norm.", "per_layer_embedding.")


def entry_of(config: TextModelConfig) -> str:
    """The block that turns ids into the stream."""
    return f"{config.ROOT}.embedding"


def layer_of(config: TextModelConfig, index: int) -> str:
    return f"{config.ROOT}.transformer.layers.{index}"


def block_names(config: TextModelConfig) -> tuple[str, ...]:
    """All of them, in the order of the computation."""
    count = len(config.network.transformer_config.layer_configs)
    return (entry_of(config), *(layer_of(config, index) for index in range(count)), EXIT)


def tensors_of(config: TextModelConfig) -> dict[str, tuple[str, ...]]:
    """The tensors that feed each block; each tensor stands at the first block that reads it."""
    found: dict[str, list[str]] = {name: [] for name in block_names(config)}
    for name, _ in config.tensors():
        found[_block_of(config, name)].append(name)
    return {block: tuple(names) for block, names in found.items()}


def feeding(config: TextModelConfig, block: str) -> tuple[str, ...]:
    """The tensors that one block reads: the exit reads a tied table as well."""
    found = tensors_of(config)
    own = found[block]
    if block != EXIT or any("output_embedding" in name for name in own):
        return own
    tables = (name for name in found[entry_of(config)] if ".embedding.embedding" in name)
    return (*tables, *own)


def block_config(config: TextModelConfig, block: str) -> Mapping[str, Any]:
    """The part of config.json that says how a block computes, as JSON values."""
    network = config.network.model_dump(mode="json")
    stack = network.pop("transformer_config")
    layers = stack.pop("layer_configs")
    if block == entry_of(config):
        return network
    if block == EXIT:
        return {"transformer_config": stack}
    return layers[int(block.rpartition(".")[2])]


def _block_of(config: TextModelConfig, name: str) -> str:
    inner = name.removeprefix(f"{config.ROOT}.")
    if inner.startswith("transformer.layers."):
        return layer_of(config, int(inner.split(".")[2]))
    is_table = inner.startswith("embedding.") and not inner.startswith(
        ("embedding.output_embedding", "embedding.readout_biases")
    )
    return entry_of(config) if is_table or inner.startswith(_ENTRY) else EXIT
