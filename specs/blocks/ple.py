"""Per-layer embeddings (Gemma 3n and 4): a second table with a slice for every layer."""

from masu.specs.blocks.activation import Activation
from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.strict import Count, Strict
from masu.specs.tensors import Entries, Matrix, linear, under


class PLEModelConfig(Strict):
    """The table `[ple_vocab_size, num_layers * ple_dim]`; layer l owns columns from l * ple_dim."""

    ple_dim: Count
    num_layers: Count
    ple_vocab_size: Count
    ple_embed_scale: float
    model_projection_scale: float
    input_scale: float
    linear_config: LinearConfig
    norm_config: NormalizationConfig

    def tensors(self, width: int) -> Entries:
        columns = self.num_layers * self.ple_dim
        yield "token_embedding", Matrix((self.ple_vocab_size, columns), "input_output")
        yield from linear("model_projection", columns, width)
        yield from under("projection_norm", self.norm_config.tensors(self.ple_dim))


class PLELayerConfig(Strict):
    """How one layer gates its slice into the residual stream."""

    linear_config: LinearConfig
    norm_config: NormalizationConfig
    ple_dim: Count
    activation: Activation

    def tensors(self, width: int) -> Entries:
        yield from linear("gate", self.ple_dim, width)
        yield from linear("projection", width, self.ple_dim)
        yield from under("norm", self.norm_config.tensors(width))
