"""The token table, and the readout that is either the same table or one of its own."""

from typing import Annotated, Literal

from pydantic import Discriminator

from masu.specs.strict import Strict
from masu.specs.tensors import Entries, Matrix, Vector


class TiedEmbeddingConfig(Strict):
    """One table `[vocab, width]` for lookup and readout. Logits: times scale, then soft cap."""

    type: Literal["TiedEmbeddingConfig"]
    input_scale: float | None
    logit_soft_cap: float | None
    logit_scale: float | None

    def tensors(self, vocab: int, width: int) -> Entries:
        yield "embedding", Matrix((vocab, width), "input_output")


class UntiedEmbeddingConfig(Strict):
    """A table for the lookup and another for the readout, each in a weight format of its own."""

    type: Literal["UntiedEmbeddingConfig"]
    input_scale: float | None
    logit_soft_cap: float | None
    logit_scale: float | None

    def tensors(self, vocab: int, width: int) -> Entries:
        yield "input_embedding", Matrix((vocab, width), "input_output")
        yield "output_embedding", Matrix((vocab, width), "output_input")


TablesConfig = Annotated[TiedEmbeddingConfig | UntiedEmbeddingConfig, Discriminator("type")]


class BiasedReadoutConfig(Strict):
    """Tables whose readout has a bias for each token (Phi-3.5-MoE); added before the scale."""

    type: Literal["BiasedReadoutConfig"]
    tables_config: TablesConfig

    def tensors(self, vocab: int, width: int) -> Entries:
        """The tables under their own names."""
        yield from self.tables_config.tensors(vocab, width)
        yield "readout_biases", Vector((vocab,))


EmbeddingConfig = Annotated[
    TiedEmbeddingConfig | UntiedEmbeddingConfig | BiasedReadoutConfig, Discriminator("type")
]


def tables_of(config: EmbeddingConfig) -> TiedEmbeddingConfig | UntiedEmbeddingConfig:
    """What the config says about the tables, apart from biases."""
    return config.tables_config if isinstance(config, BiasedReadoutConfig) else config
