"""A bidirectional encoder with pooling and a prediction head."""

from typing import Literal

from masu.specs.blocks.activation import Activation
from masu.specs.blocks.embedding import EmbeddingConfig
from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.blocks.transformer import TransformerConfig
from masu.specs.strict import Count, Strict
from masu.specs.tensors import Entries, linear, under


class PredictionHeadConfig(Strict):
    dense_config: LinearConfig
    activation: Activation
    normalization_config: NormalizationConfig
    readout_config: LinearConfig
    use_dense_bias: bool

    def tensors(self, width: int, labels: int) -> Entries:
        """The readout always has biases."""
        yield from linear("dense", width, width, biases=self.use_dense_bias)
        yield from under("norm", self.normalization_config.tensors(width))
        yield from linear("readout", labels, width, biases=True)


class ClassifierConfig(Strict):
    embedding_config: EmbeddingConfig
    embedding_norm_config: NormalizationConfig
    transformer_config: TransformerConfig
    prediction_head_config: PredictionHeadConfig
    vocab_size: Count
    model_dim: Count
    hidden_dim: Count
    num_labels: Count
    classifier_pooling: Literal["cls", "mean"]
    output_labels: tuple[str, ...] | None

    def tensors(self) -> Entries:
        width = self.model_dim
        yield from under("embedding", self.embedding_config.tensors(self.vocab_size, width))
        yield from under("embedding_norm", self.embedding_norm_config.tensors(width))
        yield from under("transformer", self.transformer_config.tensors())
        head = self.prediction_head_config.tensors(width, self.num_labels)
        yield from under("prediction_head", head)
