"""The token table, and the readout to logits."""

import numpy as np

from masu.runtime.backend import Array, Backend
from masu.runtime.loader import Loader
from masu.runtime.weights import Weight
from masu.specs.blocks.embedding import EmbeddingConfig, TiedEmbeddingConfig


def load_table(config: EmbeddingConfig, loader: Loader, vocab: int, width: int) -> Weight:
    """The table `[vocab, width]` that tokens are looked up in."""
    name = "embedding" if isinstance(config, TiedEmbeddingConfig) else "input_embedding"
    return loader.matrix(name, vocab, width, "input_output")


def load_readout(config: EmbeddingConfig, loader: Loader, vocab: int, width: int) -> Weight:
    """The matrix `[vocab, width]` that makes logits: a tied one is the table, read once more."""
    if isinstance(config, TiedEmbeddingConfig):
        return load_table(config, loader, vocab, width)
    return loader.matrix("output_embedding", vocab, width, "output_input")


def embed(
    backend: Backend, config: EmbeddingConfig, table: Weight, ids: Array, dtype: np.dtype
) -> Array:
    """Rows `[tokens, width]`, times `input_scale` rounded to `dtype`."""
    rows = backend.embed(table, ids, dtype)
    if config.input_scale is None:
        return rows
    return rows * backend.xp.asarray(config.input_scale, dtype)


def read_out(backend: Backend, config: EmbeddingConfig, readout: Weight, x: Array) -> Array:
    """Wide logits `[tokens, vocab]`: scaled, then capped."""
    logits = backend.readout(x, readout)
    if config.logit_scale is not None:
        logits = logits * config.logit_scale
    if config.logit_soft_cap is not None:
        logits = backend.soft_cap(logits, config.logit_soft_cap)
    return logits
