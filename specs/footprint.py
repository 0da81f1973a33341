"""The least memory that a model needs to run: its weights, and the state of one conversation."""

from collections.abc import Sequence

from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.delta_net import DeltaNetConfig
from masu.specs.blocks.general_mamba2 import GeneralMamba2Config
from masu.specs.blocks.mamba2 import Mamba2Config
from masu.specs.blocks.mixer import PlainMixerConfig, parts
from masu.specs.blocks.short_conv import ShortConvConfig
from masu.specs.blocks.transformer import LayerConfig, TransformerConfig
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.model import LanguageModelConfig, ModelConfig

WINDOW_SLACK = 1024
"""Tokens that uzu 0.6.13 keeps besides a sliding window, for the chunk that is being read."""

RECURRENT_BYTES = 4
"""Recurrent states, and the convolution states before them, are float32 in uzu 0.6.13."""


def layers(config: ModelConfig) -> Sequence[LayerConfig]:
    """The layers of whatever kind of model this is."""
    match config.type:
        case "LanguageModelConfig":
            return config.decoder_config.transformer_config.layer_configs
        case "ClassifierModelConfig":
            return config.classifier_config.transformer_config.layer_configs
        case "SpeculatorModelConfig":
            return config.speculator_config.draft_config.layer_configs


def state_bytes(config: ModelConfig, context: int, dtype: str) -> int:
    """Bytes of all caches and recurrent states after `context` tokens; `dtype` as in the file.

    Zero for models that keep no state: classifiers read everything at once.
    """
    if not isinstance(config, LanguageModelConfig):
        return 0
    transformer = config.decoder_config.transformer_config
    size = NUMPY_DTYPES[dtype].itemsize
    return sum(_layer_state(layer, transformer, context, size) for layer in layers(config))


def _layer_state(
    layer: LayerConfig, transformer: TransformerConfig, context: int, size: int
) -> int:
    return sum(_mixer_state(part, transformer, context, size) for part in parts(layer.mixer_config))


def _mixer_state(
    part: PlainMixerConfig, transformer: TransformerConfig, context: int, size: int
) -> int:
    match part:
        case AttentionConfig() as mixer:
            return 2 * mixer.key_dim * _kept_tokens(mixer, context) * size
        case ShortConvConfig() as mixer:
            return transformer.model_dim * (mixer.kernel_size - 1) * size
        case DeltaNetConfig() as mixer:
            state = mixer.num_heads * mixer.head_dim * mixer.value_head_dim
            return (state + mixer.conv_dim * (mixer.kernel_size - 1)) * RECURRENT_BYTES
        case (Mamba2Config() | GeneralMamba2Config()) as mixer:
            state = mixer.inner_dim * mixer.state_dim
            return (state + mixer.conv_dim * (mixer.kernel_size - 1)) * RECURRENT_BYTES


def _kept_tokens(mixer: AttentionConfig, context: int) -> int:
    """A layer that shares another's cache has `key_dim` 0 and so keeps nothing."""
    if mixer.sliding_window_size is None:
        return context
    return min(context, mixer.sliding_window_size + WINDOW_SLACK)
