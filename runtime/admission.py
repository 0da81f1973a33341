"""What this runtime refuses before it reads a tensor: missing blocks, contradicting configs."""

from collections.abc import Iterator

from masu.runtime.blocks.registry import MIXERS, MLPS
from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.rope import LongRoPEConfig
from masu.specs.blocks.transformer import TransformerLayerConfig
from masu.specs.errors import RequestError, SchemaError
from masu.specs.model import LanguageModelConfig, ModelConfig


def admit(config: ModelConfig) -> LanguageModelConfig:
    """The config, if this runtime can run it.

    Raises:
        RequestError: it has blocks that this runtime does not run yet; every one is named.
        SchemaError: fields of config.json contradict each other.
    """
    if not isinstance(config, LanguageModelConfig):
        raise RequestError(f"this runtime does not run a {config.type} yet")
    decoder = config.decoder_config
    if missing := list(_missing_blocks(decoder)):
        raise RequestError("this runtime does not run every block yet", problems=missing)
    if problems := list(_contradictions(decoder)):
        raise SchemaError("config.json contradicts itself", problems=problems)
    return config


def _missing_blocks(decoder: DecoderConfig) -> Iterator[str]:
    if decoder.ple_model_config is not None:
        yield "decoder: PLEModelConfig"
    for index, layer in enumerate(decoder.transformer_config.layer_configs):
        if type(layer.mixer_config) not in MIXERS:
            yield f"layer {index}: {layer.mixer_config.type}"
        if type(layer.mlp_config) not in MLPS:
            yield f"layer {index}: {layer.mlp_config.type}"
        for name in ("mixer_conv_config", "mlp_conv_config", "ple_config"):
            if (block := getattr(layer, name)) is not None:
                yield f"layer {index}: {type(block).__name__} ({name})"


def _contradictions(decoder: DecoderConfig) -> Iterator[str]:
    layers = decoder.transformer_config.layer_configs
    for index, layer in enumerate(layers):
        for problem in (*_layer_problems(layer), *_sharing_problems(layers, index)):
            yield f"layer {index}: {problem}"


def _layer_problems(layer: TransformerLayerConfig) -> Iterator[str]:
    mixer, rope = layer.mixer_config, layer.rope_config
    if isinstance(mixer, AttentionConfig):
        if mixer.num_heads % mixer.num_groups:
            yield f"num_heads {mixer.num_heads} is not a multiple of num_groups {mixer.num_groups}"
        if not mixer.is_causal:
            yield "is_causal must be true: a language model cannot look ahead"
        if rope is not None and rope.head_dim > mixer.head_dim:
            yield f"rope_config.head_dim {rope.head_dim} is above head_dim {mixer.head_dim}"
    if rope is not None and rope.head_dim % 2:
        yield f"rope_config.head_dim {rope.head_dim} is odd"
    if isinstance(rope, LongRoPEConfig):
        for name in ("short_factor", "long_factor"):
            if len(getattr(rope, name)) != rope.head_dim // 2:
                yield f"rope_config.{name} has not one value for each of {rope.head_dim // 2} pairs"


def _sharing_problems(layers: tuple[TransformerLayerConfig, ...], index: int) -> Iterator[str]:
    mixer, source = layers[index].mixer_config, layers[index].kv_source_layer_index
    if not isinstance(mixer, AttentionConfig):
        return
    if mixer.is_kv_sharing != (source is not None):
        yield f"is_kv_sharing is {mixer.is_kv_sharing}, kv_source_layer_index is {source}"
    elif source is not None and source >= index:
        yield f"kv_source_layer_index {source} is not an earlier layer"
    elif source is not None:
        shared = layers[source].mixer_config
        if not isinstance(shared, AttentionConfig) or shared.is_kv_sharing:
            yield f"kv_source_layer_index {source} names a layer without a cache of its own"
        elif (shared.num_groups, shared.head_dim) != (mixer.num_groups, mixer.head_dim):
            yield f"num_groups and head_dim differ from those of its source, layer {source}"
