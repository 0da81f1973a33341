"""A language model from token ids to logits."""

from masu.specs.blocks.embedding import EmbeddingConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.blocks.ple import PLEModelConfig
from masu.specs.blocks.transformer import TransformerConfig
from masu.specs.strict import Count, Strict
from masu.specs.tensors import Entries, under


class DecoderConfig(Strict):
    embedding_config: EmbeddingConfig
    transformer_config: TransformerConfig
    vocab_size: Count
    ple_model_config: PLEModelConfig | None
    embedding_norm_config: NormalizationConfig | None

    def tensors(self) -> Entries:
        width = self.transformer_config.model_dim
        yield from under("embedding", self.embedding_config.tensors(self.vocab_size, width))
        if self.embedding_norm_config is not None:
            yield from under("embedding_norm", self.embedding_norm_config.tensors(width))
        if self.ple_model_config is not None:
            yield from under("per_layer_embedding", self.ple_model_config.tensors(width))
        yield from under("transformer", self.transformer_config.tensors())
