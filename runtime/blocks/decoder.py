"""A language model in parts: from token ids to the stream, the layers, from there to logits."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import embedding, layer, norm, rope
from masu.runtime.blocks.layer import LayerParameters
from masu.runtime.blocks.norm import NormParameters
from masu.runtime.blocks.rope import Rotation
from masu.runtime.loader import Loader
from masu.runtime.weights import Weight
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.embedding import EmbeddingConfig, TiedEmbeddingConfig
from masu.specs.blocks.norm import NormalizationConfig


class EntryConfig(NamedTuple):
    """What turns ids into the stream, and the dtype of the stream."""

    embedding: EmbeddingConfig
    norm: NormalizationConfig | None
    dtype: np.dtype

    @classmethod
    def of(cls, config: DecoderConfig, dtype: np.dtype) -> "EntryConfig":
        return cls(config.embedding_config, config.embedding_norm_config, dtype)


class EntryParameters(NamedTuple):
    table: Weight
    norm: NormParameters | None


class ExitConfig(NamedTuple):
    """What turns the stream into logits."""

    norm: NormalizationConfig
    embedding: EmbeddingConfig

    @classmethod
    def of(cls, config: DecoderConfig) -> "ExitConfig":
        return cls(config.transformer_config.output_norm_config, config.embedding_config)


class ExitParameters(NamedTuple):
    norm: NormParameters
    readout: Weight


def load_entry(config: DecoderConfig, loader: Loader) -> EntryParameters:
    width = config.transformer_config.model_dim
    tables = loader.under("embedding")
    return EntryParameters(
        embedding.load_table(config.embedding_config, tables, config.vocab_size, width),
        norm.load_optional(config.embedding_norm_config, loader.under("embedding_norm"), width),
    )


def load_layer(config: DecoderConfig, loader: Loader, index: int) -> LayerParameters:
    stack = config.transformer_config
    below = loader.under("transformer").under("layers").under(str(index))
    return layer.load(stack.layer_configs[index], below, stack.model_dim, stack.hidden_dim)


def load_exit(
    config: DecoderConfig, loader: Loader, entry: EntryParameters | None = None
) -> ExitParameters:
    """A tied readout is the table of `entry`, or is read again where that is not kept."""
    width = config.transformer_config.model_dim
    tables, output_norm = (
        loader.under("embedding"),
        loader.under("transformer").under("output_norm"),
    )
    if entry is not None and isinstance(config.embedding_config, TiedEmbeddingConfig):
        readout = entry.table
    else:
        readout = embedding.load_readout(config.embedding_config, tables, config.vocab_size, width)
    output_norm_config = config.transformer_config.output_norm_config
    return ExitParameters(norm.load(output_norm_config, output_norm, width), readout)


def enter(
    backend: Backend,
    config: EntryConfig,
    parameters: EntryParameters,
    ids: Array,
    position: Array,
    rotations: Sequence[Rotation],
) -> tuple[Array, tuple[tuple[Array, Array], ...]]:
    """The stream `[tokens, width]` of ids `[tokens]`, and the angles of every rotation."""
    x = embedding.embed(backend, config.embedding, parameters.table, ids, config.dtype)
    x = norm.apply(backend, config.norm, parameters.norm, x)
    positions = position + backend.xp.arange(ids.shape[0], dtype=np.int32)
    return x, rope.angles(backend, rotations, positions)


def leave(backend: Backend, config: ExitConfig, parameters: ExitParameters, x: Array) -> Array:
    """Wide logits `[tokens, vocab]`."""
    x = norm.apply(backend, config.norm, parameters.norm, x)
    return embedding.read_out(backend, config.embedding, parameters.readout, x)


def leave_row(
    backend: Backend, config: ExitConfig, parameters: ExitParameters, x: Array, row: Array
) -> Array:
    """Wide logits `[vocab]` of one row of the stream."""
    return leave(backend, config, parameters, x[row][None])[0]
