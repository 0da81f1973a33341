"""The whole of config.json: a language model, a classifier, or a speculator."""

from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import Discriminator, TypeAdapter

from masu.specs.blocks.classifier import ClassifierConfig
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.embedding import EmbeddingConfig
from masu.specs.blocks.speculator import DFlashSpeculatorConfig
from masu.specs.codec import TokenCodecConfig
from masu.specs.generation import GenerationConfig
from masu.specs.strict import Strict
from masu.specs.tensors import Entries, under

NetworkConfig: TypeAlias = DecoderConfig | ClassifierConfig
"""What turns token ids into logits."""


class LanguageModelConfig(Strict):
    """Token ids to logits of the next token, at every position."""

    ROOT: ClassVar[str] = "decoder"
    """What the name of every tensor begins with."""

    type: Literal["LanguageModelConfig"]
    token_codec_config: TokenCodecConfig
    decoder_config: DecoderConfig
    generation_config: GenerationConfig

    @property
    def network(self) -> DecoderConfig:
        return self.decoder_config

    def with_embedding(self, embedding: EmbeddingConfig) -> Self:
        """The same model with other tables."""
        network = self.decoder_config.model_copy(update={"embedding_config": embedding})
        return self.model_copy(update={"decoder_config": network})

    def tensors(self) -> Entries:
        yield from under(self.ROOT, self.decoder_config.tensors())


class ClassifierModelConfig(Strict):
    """Token ids to a logit for each label."""

    ROOT: ClassVar[str] = "classifier"
    """What the name of every tensor begins with."""

    type: Literal["ClassifierModelConfig"]
    token_codec_config: TokenCodecConfig
    classifier_config: ClassifierConfig

    @property
    def network(self) -> ClassifierConfig:
        return self.classifier_config

    def with_embedding(self, embedding: EmbeddingConfig) -> Self:
        """The same model with other tables."""
        network = self.classifier_config.model_copy(update={"embedding_config": embedding})
        return self.model_copy(update={"classifier_config": network})

    def tensors(self) -> Entries:
        yield from under(self.ROOT, self.classifier_config.tensors())


class SpeculatorModelConfig(Strict):
    type: Literal["SpeculatorModelConfig"]
    speculator_config: DFlashSpeculatorConfig

    def tensors(self) -> Entries:
        yield from under("speculator", self.speculator_config.tensors())


TextModelConfig: TypeAlias = LanguageModelConfig | ClassifierModelConfig
"""The models that read text by themselves."""

ModelConfig = Annotated[
    LanguageModelConfig | ClassifierModelConfig | SpeculatorModelConfig, Discriminator("type")
]
MODEL_CONFIG: TypeAdapter[ModelConfig] = TypeAdapter(ModelConfig)
