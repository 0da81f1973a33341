"""Qwen3: Llama with a norm on each query and key head, and windows on the upper layers."""

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer, rms_norm
from masu.converter.config import SiluConfig, Size
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.rope import read_rope
from masu.converter.sliding import upper_windows
from masu.converter.table import Table
from masu.specs.blocks.decoder import DecoderConfig


class Config(SiluConfig):
    head_dim: Size = 128
    attention_bias: bool = False
    use_sliding_window: bool = False
    sliding_window: int | None = 4096
    max_window_layers: int = 28
    layer_types: tuple[str, ...] | None = None


def build(config: Config) -> DecoderConfig:
    norm = rms_norm(config.rms_norm_eps)
    rope = read_rope(
        config.rope_parameters,
        head_dim=config.head_dim,
        max_positions=config.max_position_embeddings,
    )
    layers = [
        layer(
            norm=norm,
            mixer=attention(
                num_heads=config.num_attention_heads,
                num_groups=config.num_groups,
                head_dim=config.head_dim,
                query_key_norm=norm,
                window=window,
                qkv_biases=config.attention_bias,
                out_biases=config.attention_bias,
            ),
            mlp=dense_mlp(),
            rope=rope,
        )
        for window in upper_windows(config)
    ]
    return dense_decoder(config, layers=layers, output_norm=norm)


# fmt: off
WEIGHTS: Table = {
    **llama.WEIGHTS,
    "model.layers.{i}.self_attn.q_norm.weight":  f"{llama.LAYER}.mixer.query_norm.scales",
    "model.layers.{i}.self_attn.k_norm.weight":  f"{llama.LAYER}.mixer.key_norm.scales",
}
# fmt: on

FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "qwen3",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True,
        "attention_bias": True,
        "use_sliding_window": True,
        "sliding_window": 16,
        "max_window_layers": 1,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    },
)
