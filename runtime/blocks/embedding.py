"""The token table, and the readout to logits."""

import numpy as np

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks.linear import Linear
from masu.runtime.loader import Loader
from masu.runtime.weights import Weight
from masu.specs.blocks.embedding import (
    BiasedReadoutConfig,
    EmbeddingConfig,
    TiedEmbeddingConfig,
    tables_of,
)


def load_table(config: EmbeddingConfig, loader: Loader, vocab: int, width: int) -> Weight:
    """The table `[vocab, width]` that tokens are looked up in."""
    is_tied = isinstance(tables_of(config), TiedEmbeddingConfig)
    return loader.matrix(
        "embedding" if is_tied else "input_embedding", vocab, width, "input_output"
    )


def load_readout(
    config: EmbeddingConfig, loader: Loader, vocab: int, width: int, table: Weight | None
) -> Linear:
    """The matrix `[vocab, width]` that makes logits, and perhaps biases `[vocab]`.

    A tied one is `table`, or is read again where that was not kept.
    """
    if not isinstance(tables_of(config), TiedEmbeddingConfig):
        weights = loader.matrix("output_embedding", vocab, width, "output_input")
    else:
        weights = load_table(config, loader, vocab, width) if table is None else table
    has_biases = isinstance(config, BiasedReadoutConfig)
    return Linear(weights, loader.vector("readout_biases", (vocab,)) if has_biases else None)


def embed(
    backend: Backend, config: EmbeddingConfig, table: Weight, ids: Array, dtype: np.dtype
) -> Array:
    """Rows `[tokens, width]`, times `input_scale` rounded to `dtype`."""
    rows, scale = backend.embed(table, ids, dtype), tables_of(config).input_scale
    return rows if scale is None else rows * backend.xp.asarray(scale, dtype)


def read_out(backend: Backend, config: EmbeddingConfig, readout: Linear, x: Array) -> Array:
    """Wide logits `[tokens, vocab]`: with biases, then scaled, then capped."""
    logits, tables = backend.readout(x, readout.weights), tables_of(config)
    if readout.biases is not None:
        logits = logits + readout.biases
    if tables.logit_scale is not None:
        logits = logits * tables.logit_scale
    if tables.logit_soft_cap is not None:
        logits = backend.soft_cap(logits, tables.logit_soft_cap)
    return logits
