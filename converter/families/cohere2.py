"""Command R7B and later: attention and MLP side by side, rotation only where there is a window.

The checkpoint turns neighbouring channels together; its rows of queries and keys are written in
the engine's order (`converter/rotary_rows.py`).
"""

from typing import ClassVar, Literal

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer_norm, parallel_layer
from masu.converter.config import Epsilon, StackConfig
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.rope import read_rope
from masu.converter.rotary_rows import neighbours_apart
from masu.converter.sliding import windows
from masu.converter.table import Table, Target
from masu.specs.blocks.decoder import DecoderConfig


class Config(StackConfig):
    """The later fields are keys of the first release, which transformers does not read."""

    INERT: ClassVar = {
        "head_dim": "hidden_size / num_attention_heads decides, as in transformers",
        "layer_switch": "layer_types or sliding_window_pattern decides",
    }

    hidden_act: Literal["silu"] = "silu"
    layer_norm_eps: Epsilon = 1e-5
    logit_scale: float = 0.0625
    tie_word_embeddings: bool = True
    attention_bias: bool = False
    sliding_window: int | None = 4096
    sliding_window_pattern: int = 4
    layer_types: tuple[str, ...] | None = None

    order_of_interleaved_layers: Literal["local_attn_first"] = "local_attn_first"
    position_embedding_type: Literal["rope_gptj"] = "rope_gptj"
    rotary_pct: Literal[1] = 1
    use_embedding_sharing: Literal[True] = True
    use_gated_activation: Literal[True] = True
    use_parallel_block: Literal[True] = True
    use_parallel_embedding: Literal[False] = False
    use_qk_norm: Literal[False] = False


def build(config: Config) -> DecoderConfig:
    norm = layer_norm(config.layer_norm_eps, biases=False)
    rope = read_rope(
        config.rope_parameters,
        head_dim=config.even_head_dim,
        max_positions=config.max_position_embeddings,
    )
    pattern = config.sliding_window_pattern
    slides = [(index + 1) % pattern != 0 for index in range(config.num_hidden_layers)]
    layers = [
        parallel_layer(
            norm=norm,
            mixer=attention(
                num_heads=config.num_attention_heads,
                num_groups=config.num_groups,
                head_dim=config.even_head_dim,
                window=window,
                qkv_biases=config.attention_bias,
                out_biases=config.attention_bias,
            ),
            mlp=dense_mlp(),
            rope=None if window is None else rope,
        )
        for window in windows(config.layer_types, slides, config.sliding_window)
    ]
    return dense_decoder(config, layers=layers, output_norm=norm, logit_scale=config.logit_scale)


def weights(config: Config) -> Table:
    apart = neighbours_apart(config.even_head_dim, config.even_head_dim)
    mixer = f"{llama.LAYER}.mixer"
    # fmt: off
    table = {
        **llama.WEIGHTS,
        "model.layers.{i}.input_layernorm.weight": f"{llama.LAYER}.norm.scales",
        "model.layers.{i}.self_attn.{q,k,v}_proj.weight":
            Target(f"{mixer}.qkvg_projection.weights", rows=(apart, apart, None)),
        "model.layers.{i}.self_attn.{q,k,v}_proj.bias":
            Target(f"{mixer}.qkvg_projection.biases", rows=(apart, apart, None)),
    }
    # fmt: on
    return {key: target for key, target in table.items() if "post_attention" not in key}


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=weights,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "cohere2",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "layer_norm_eps": 1e-5,
        "logit_scale": 0.25,
        "tie_word_embeddings": True,
        "attention_bias": True,
        "sliding_window": 16,
        "sliding_window_pattern": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 50000.0},
    },
    variants=(
        {
            "attention_bias": False,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
)
