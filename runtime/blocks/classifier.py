"""The end of a classifier: the stream pooled to one row, and a head that makes logits of it."""

from typing import Literal, NamedTuple

import numpy as np

from masu.runtime.backend import Array, Backend
from masu.runtime.blocks import linear, norm
from masu.runtime.blocks.linear import Linear
from masu.runtime.blocks.norm import NormParameters
from masu.runtime.loader import Loader
from masu.specs.blocks.classifier import ClassifierConfig, PredictionHeadConfig
from masu.specs.blocks.norm import NormalizationConfig


class ClassifierExitConfig(NamedTuple):
    """What turns the stream into logits of labels."""

    norm: NormalizationConfig
    pooling: Literal["cls", "mean"]
    head: PredictionHeadConfig

    @classmethod
    def of(cls, config: ClassifierConfig) -> "ClassifierExitConfig":
        output_norm = config.transformer_config.output_norm_config
        return cls(output_norm, config.classifier_pooling, config.prediction_head_config)


class ClassifierExitParameters(NamedTuple):
    """`dense` `[width, width]`, `readout` `[labels, width]` with biases."""

    norm: NormParameters
    dense: Linear
    head_norm: NormParameters
    readout: Linear


def load_exit(config: ClassifierConfig, loader: Loader) -> ClassifierExitParameters:
    width, head = config.model_dim, config.prediction_head_config
    output_norm = config.transformer_config.output_norm_config
    below = loader.under("prediction_head")
    return ClassifierExitParameters(
        norm.load(output_norm, loader.under("transformer").under("output_norm"), width),
        linear.load(below.under("dense"), width, width, has_biases=head.use_dense_bias),
        norm.load(head.normalization_config, below.under("norm"), width),
        linear.load(below.under("readout"), config.num_labels, width, has_biases=True),
    )


def leave(
    backend: Backend,
    config: ClassifierExitConfig,
    parameters: ClassifierExitParameters,
    x: Array,
    length: Array,
) -> Array:
    """Wide logits `[labels]` of a stream `[tokens, width]` whose rows from `length` on are void."""
    x = norm.apply(backend, config.norm, parameters.norm, x)
    x = pool(backend, config.pooling, x, length)
    x = linear.apply(backend, parameters.dense, x)
    x = backend.activate(backend.wide(x), config.head.activation).astype(x.dtype)
    x = norm.apply(backend, config.head.normalization_config, parameters.head_norm, x)
    logits = backend.readout(x, parameters.readout.weights)
    return (logits + parameters.readout.biases)[0]


def pool(backend: Backend, pooling: Literal["cls", "mean"], x: Array, length: Array) -> Array:
    """One row `[1, width]`: the first, which stands for the text, or the mean of all."""
    if pooling == "cls":
        return x[:1]
    xp, wide = backend.xp, backend.wide(x)
    filled = xp.arange(x.shape[0], dtype=np.int32)[:, None] < length
    total = xp.sum(xp.where(filled, wide, 0.0), axis=0, keepdims=True)
    return (total / xp.asarray(length, wide.dtype)).astype(x.dtype)
