"""The whole of config.json: a language model, a classifier, or a speculator."""

from typing import Annotated, Literal

from pydantic import Discriminator, TypeAdapter

from masu.specs.blocks.classifier import ClassifierConfig
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.speculator import DFlashSpeculatorConfig
from masu.specs.codec import TokenCodecConfig
from masu.specs.generation import GenerationConfig
from masu.specs.strict import Strict
from masu.specs.tensors import Entries, under


class LanguageModelConfig(Strict):
    type: Literal["LanguageModelConfig"]
    token_codec_config: TokenCodecConfig
    decoder_config: DecoderConfig
    generation_config: GenerationConfig

    def tensors(self) -> Entries:
        yield from under("decoder", self.decoder_config.tensors())


class ClassifierModelConfig(Strict):
    type: Literal["ClassifierModelConfig"]
    token_codec_config: TokenCodecConfig
    classifier_config: ClassifierConfig

    def tensors(self) -> Entries:
        yield from under("classifier", self.classifier_config.tensors())


class SpeculatorModelConfig(Strict):
    type: Literal["SpeculatorModelConfig"]
    speculator_config: DFlashSpeculatorConfig

    def tensors(self) -> Entries:
        yield from under("speculator", self.speculator_config.tensors())


ModelConfig = Annotated[
    LanguageModelConfig | ClassifierModelConfig | SpeculatorModelConfig, Discriminator("type")
]
MODEL_CONFIG: TypeAdapter[ModelConfig] = TypeAdapter(ModelConfig)
