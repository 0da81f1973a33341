"""A network in parts: from token ids to the stream, the layers, from there to next tokens."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import embedding, norm, ple, rope
from masu.runtime.blocks.layers import LAYERS
from masu.runtime.blocks.linear import Linear
from masu.runtime.blocks.norm import NormParameters
from masu.runtime.blocks.ple import PLEModelParameters
from masu.runtime.blocks.rope import Rotation
from masu.runtime.loader import Loader
from masu.runtime.weights import Weight
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.embedding import EmbeddingConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.blocks.ple import PLEModelConfig
from masu.specs.model import NetworkConfig


class EntryConfig(NamedTuple):
    """What turns ids into the stream, and the dtype of the stream."""

    embedding: EmbeddingConfig
    norm: NormalizationConfig | None
    ple: PLEModelConfig | None
    dtype: np.dtype

    @classmethod
    def of(cls, config: NetworkConfig, dtype: np.dtype) -> "EntryConfig":
        ple = ple_config(config)
        return cls(config.embedding_config, config.embedding_norm_config, ple, dtype)


class EntryParameters(NamedTuple):
    table: Weight
    norm: NormParameters | None
    ple: PLEModelParameters | None


class Entered(NamedTuple):
    """What the layers start from.

    Attributes:
        stream: `[tokens, width]`.
        angles: cosines and sines `[tokens, pairs]` of every rotation.
        told: for every layer its slice of per-layer embeddings, if the model has them.
    """

    stream: Array
    angles: tuple[tuple[Array, Array], ...]
    told: tuple[Array, ...] | None


class ExitConfig(NamedTuple):
    """What turns the stream into logits."""

    norm: NormalizationConfig
    embedding: EmbeddingConfig

    @classmethod
    def of(cls, config: DecoderConfig) -> "ExitConfig":
        return cls(config.transformer_config.output_norm_config, config.embedding_config)


class ExitParameters(NamedTuple):
    norm: NormParameters
    readout: Linear


def ple_config(config: NetworkConfig) -> PLEModelConfig | None:
    """Only decoders have per-layer embeddings."""
    return config.ple_model_config if isinstance(config, DecoderConfig) else None


def load_entry(config: NetworkConfig, loader: Loader) -> EntryParameters:
    width = config.transformer_config.model_dim
    tables, told = loader.under("embedding"), ple_config(config)
    return EntryParameters(
        embedding.load_table(config.embedding_config, tables, config.vocab_size, width),
        norm.load_optional(config.embedding_norm_config, loader.under("embedding_norm"), width),
        ple.load_model(told, loader.under("per_layer_embedding"), width) if told else None,
    )


def load_layer(config: NetworkConfig, loader: Loader, index: int) -> Any:
    stack = config.transformer_config
    below = loader.under("transformer").under("layers").under(str(index))
    layer = stack.layer_configs[index]
    return LAYERS[type(layer)].load(layer, below, stack.model_dim, stack.hidden_dim)


def load_exit(
    config: DecoderConfig, loader: Loader, entry: EntryParameters | None = None
) -> ExitParameters:
    """A tied readout is the table of `entry`, or is read again where that is not kept."""
    width = config.transformer_config.model_dim
    tables, output_norm = (
        loader.under("embedding"),
        loader.under("transformer").under("output_norm"),
    )
    table = None if entry is None else entry.table
    readout = embedding.load_readout(
        config.embedding_config, tables, config.vocab_size, width, table
    )
    output_norm_config = config.transformer_config.output_norm_config
    return ExitParameters(norm.load(output_norm_config, output_norm, width), readout)


def enter(
    backend: Backend,
    config: EntryConfig,
    parameters: EntryParameters,
    ids: Array,
    position: Array,
    rotations: Sequence[Rotation],
) -> Entered:
    """From ids `[tokens]`, the first of which stands at `position`."""
    x = embedding.embed(backend, config.embedding, parameters.table, ids, config.dtype)
    x = norm.apply(backend, config.norm, parameters.norm, x)
    positions = position + backend.xp.arange(ids.shape[0], dtype=np.int32)
    told = None
    if config.ple is not None and parameters.ple is not None:
        told = ple.slices(backend, config.ple, parameters.ple, ids, x)
    return Entered(x, rope.angles(backend, rotations, positions), told)


def leave(backend: Backend, config: ExitConfig, parameters: ExitParameters, x: Array) -> Array:
    """Wide logits `[tokens, vocab]`."""
    x = norm.apply(backend, config.norm, parameters.norm, x)
    return embedding.read_out(backend, config.embedding, parameters.readout, x)


def leave_row(
    backend: Backend, config: ExitConfig, parameters: ExitParameters, x: Array, row: Array
) -> Array:
    """Wide logits `[vocab]` of one row of the stream."""
    return leave(backend, config, parameters, x[row][None])[0]
