"""Qwen2 and 2.5: Llama with biases on queries, keys and values, and windows on the upper layers."""

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer, rms_norm
from masu.converter.config import SiluConfig
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.rope import read_rope
from masu.converter.sliding import upper_windows
from masu.specs.blocks.decoder import DecoderConfig


class Config(SiluConfig):
    use_sliding_window: bool = False
    sliding_window: int | None = 4096
    max_window_layers: int = 28
    layer_types: tuple[str, ...] | None = None


def build(config: Config) -> DecoderConfig:
    norm = rms_norm(config.rms_norm_eps)
    rope = read_rope(
        config.rope_parameters,
        head_dim=config.even_head_dim,
        max_positions=config.max_position_embeddings,
    )
    layers = [
        layer(
            norm=norm,
            mixer=attention(
                num_heads=config.num_attention_heads,
                num_groups=config.num_groups,
                head_dim=config.even_head_dim,
                window=window,
                qkv_biases=True,
            ),
            mlp=dense_mlp(),
            rope=rope,
        )
        for window in upper_windows(config)
    ]
    return dense_decoder(config, layers=layers, output_norm=norm)


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: llama.WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "qwen2",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "use_sliding_window": True,
        "sliding_window": 16,
        "max_window_layers": 1,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
    },
)
