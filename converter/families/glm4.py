"""GLM-4: norms before and after each sub-layer, half of each head turned, pair by pair.

The checkpoint turns neighbouring channels together. Its rows of queries and keys are written in
the engine's order, which changes no score, so that the package holds plain constructs only.
"""

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer, rms_norm
from masu.converter.config import Epsilon, SiluConfig, Size
from masu.converter.families import llama, phi3
from masu.converter.family import Family
from masu.converter.rope import read_rope
from masu.converter.rotary_rows import neighbours_apart
from masu.converter.table import Table, Target
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.rope import RoPEConfig


class Config(SiluConfig):
    head_dim: Size = 128
    attention_bias: bool = True
    rms_norm_eps: Epsilon = 0.00000015625


def rope(config: Config) -> RoPEConfig:
    return read_rope(
        {"partial_rotary_factor": 0.5, **(config.rope_parameters or {})},
        head_dim=config.head_dim,
        max_positions=config.max_position_embeddings,
        partial=True,
    )


def build(config: Config) -> DecoderConfig:
    norm = rms_norm(config.rms_norm_eps)
    block = layer(
        norm=norm,
        post_norm=norm,
        mixer=attention(
            num_heads=config.num_attention_heads,
            num_groups=config.num_groups,
            head_dim=config.head_dim,
            qkv_biases=config.attention_bias,
        ),
        mlp=dense_mlp(),
        rope=rope(config),
    )
    return dense_decoder(config, layers=[block] * config.num_hidden_layers, output_norm=norm)


def weights(config: Config) -> Table:
    apart = neighbours_apart(config.head_dim, rope(config).head_dim)
    mixer = f"{llama.LAYER}.mixer"
    # fmt: off
    return {
        **phi3.WEIGHTS,
        "model.layers.{i}.self_attn.{q,k,v}_proj.weight":
            Target(f"{mixer}.qkvg_projection.weights", rows=(apart, apart, None)),
        "model.layers.{i}.self_attn.{q,k,v}_proj.bias":
            Target(f"{mixer}.qkvg_projection.biases", rows=(apart, apart, None)),
        "model.layers.{i}.post_self_attn_layernorm.weight": f"{llama.LAYER}.post_mixer_norm.scales",
        "model.layers.{i}.post_mlp_layernorm.weight":       f"{llama.LAYER}.post_mlp_norm.scales",
    }
    # fmt: on


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=weights,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "glm4",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "attention_bias": True,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
        },
    },
    variants=({"attention_bias": False, "tie_word_embeddings": True},),
)
