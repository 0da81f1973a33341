"""Mistral: Llama with one sliding window for all layers, and no biases."""

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer, rms_norm
from masu.converter.config import SiluConfig, Size
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.rope import read_rope
from masu.specs.blocks.decoder import DecoderConfig


class Config(SiluConfig):
    head_dim: Size | None = None
    sliding_window: int | None = 4096


def build(config: Config) -> DecoderConfig:
    head_dim = config.head_dim or config.even_head_dim
    norm = rms_norm(config.rms_norm_eps)
    block = layer(
        norm=norm,
        mixer=attention(
            num_heads=config.num_attention_heads,
            num_groups=config.num_groups,
            head_dim=head_dim,
            window=config.sliding_window,
        ),
        mlp=dense_mlp(),
        rope=read_rope(
            config.rope_parameters,
            head_dim=head_dim,
            max_positions=config.max_position_embeddings,
        ),
    )
    return dense_decoder(config, layers=[block] * config.num_hidden_layers, output_norm=norm)


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: llama.WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "mistral",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "sliding_window": 16,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    },
)
