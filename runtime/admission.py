"""What this runtime refuses before it reads a tensor: missing blocks, contradicting configs."""

from collections.abc import Iterator

from masu.runtime.blocks.decoder import ple_config
from masu.runtime.blocks.registry import MIXERS, MLPS
from masu.runtime.blocks.wiring import source_of
from masu.runtime.mixture_limits import mixture_problems
from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.layer import TransformerLayerConfig
from masu.specs.blocks.mixer import parts
from masu.specs.blocks.rope import LongRoPEConfig
from masu.specs.blocks.transformer import LayerConfig
from masu.specs.errors import RequestError, SchemaError
from masu.specs.model import (
    ClassifierModelConfig,
    LanguageModelConfig,
    ModelConfig,
    NetworkConfig,
    TextModelConfig,
)


def admit(config: ModelConfig) -> TextModelConfig:
    """The config, if this runtime can run it.

    Raises:
        RequestError: it has blocks that this runtime does not run yet; every one is named.
        SchemaError: fields of config.json contradict each other.
    """
    if not isinstance(config, LanguageModelConfig | ClassifierModelConfig):
        raise RequestError(f"this runtime does not run a {config.type} yet")
    if missing := list(_missing_blocks(config.network)):
        raise RequestError("this runtime does not run every block yet", problems=missing)
    if problems := list(_contradictions(config.network)):
        raise SchemaError("config.json contradicts itself", problems=problems)
    return config


def _missing_blocks(network: NetworkConfig) -> Iterator[str]:
    for index, layer in enumerate(network.transformer_config.layer_configs):
        for block, known in ((layer.mixer_config, MIXERS), (layer.mlp_config, MLPS)):
            if block is not None and type(block) not in known:
                yield f"layer {index}: {block.type}"
        for name in ("mixer_conv_config", "mlp_conv_config"):
            if (block := getattr(layer, name, None)) is not None:
                yield f"layer {index}: {type(block).__name__} ({name})"


def _contradictions(network: NetworkConfig) -> Iterator[str]:
    yield from _width_problems(network)
    yield from _ple_problems(network)
    layers = network.transformer_config.layer_configs
    is_causal = isinstance(network, DecoderConfig)
    for index, layer in enumerate(layers):
        mixture = mixture_problems(getattr(layer, "mlp_config", None))
        own = (*_layer_problems(layer, is_causal), *mixture, *_sharing_problems(layers, index))
        yield from (f"layer {index}: {problem}" for problem in own)


def _width_problems(network: NetworkConfig) -> Iterator[str]:
    """A classifier says twice how wide its stream is and how many labels it has."""
    if isinstance(network, DecoderConfig):
        return
    width, names = network.transformer_config.model_dim, network.output_labels
    if network.model_dim != width:
        yield f"model_dim is {network.model_dim}, transformer_config.model_dim is {width}"
    if names is not None and len({*names}) < len(names):
        yield f"output_labels has a name twice: {', '.join(names)}"
    if names is not None and len(names) != network.num_labels:
        yield f"output_labels has {len(names)} names, num_labels is {network.num_labels}"


def _ple_problems(network: NetworkConfig) -> Iterator[str]:
    """The table has rows for all tokens, and columns for all layers that read them."""
    model, layers = ple_config(network), network.transformer_config.layer_configs
    if model is not None and model.ple_vocab_size < network.vocab_size:
        yield f"ple_vocab_size {model.ple_vocab_size} is below vocab_size {network.vocab_size}"
    if model is not None and model.num_layers != len(layers):
        yield f"ple_model_config.num_layers is {model.num_layers}, there are {len(layers)} layers"
    for index, layer in enumerate(layers):
        own = layer.ple_config if isinstance(layer, TransformerLayerConfig) else None
        if own is not None and (model is None or own.ple_dim != model.ple_dim):
            found = None if model is None else model.ple_dim
            yield f"layer {index}: ple_dim is {own.ple_dim}, that of ple_model_config is {found}"


def _layer_problems(layer: LayerConfig, is_causal: bool) -> Iterator[str]:
    rope = layer.rope_config
    for mixer in _attentions(layer):
        if is_causal and not mixer.is_causal:
            yield "is_causal must be true: a language model cannot look ahead"
        if rope is not None and rope.head_dim > mixer.head_dim:
            yield f"rope_config.head_dim {rope.head_dim} is above head_dim {mixer.head_dim}"
    if rope is not None and rope.head_dim % 2:
        yield f"rope_config.head_dim {rope.head_dim} is odd"
    if isinstance(rope, LongRoPEConfig):
        for name in ("short_factor", "long_factor"):
            if len(getattr(rope, name)) != rope.head_dim // 2:
                yield f"rope_config.{name} has not one value for each of {rope.head_dim // 2} pairs"


def _sharing_problems(layers: tuple[LayerConfig, ...], index: int) -> Iterator[str]:
    source = source_of(layers[index])
    for mixer in _attentions(layers[index]):
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


def _attentions(layer: LayerConfig) -> list[AttentionConfig]:
    return [part for part in parts(layer.mixer_config) if isinstance(part, AttentionConfig)]
