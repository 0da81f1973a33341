"""Llama: grouped-query attention, a gated SiLU MLP, two norms per layer."""

from typing import ClassVar

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer, rms_norm
from masu.converter.config import SiluConfig, Size
from masu.converter.family import Family
from masu.converter.rope import read_rope
from masu.converter.table import READOUT, TOKEN_TABLE, Table, Unused
from masu.specs.blocks.decoder import DecoderConfig


class Config(SiluConfig):
    INERT: ClassVar = {"rope_interleaved": "an old key that transformers ignores"}

    head_dim: Size | None = None
    attention_bias: bool = False
    mlp_bias: bool = False


def build(config: Config) -> DecoderConfig:
    head_dim = config.head_dim or config.even_head_dim
    norm = rms_norm(config.rms_norm_eps)
    block = layer(
        norm=norm,
        mixer=attention(
            num_heads=config.num_attention_heads,
            num_groups=config.num_groups,
            head_dim=head_dim,
            qkv_biases=config.attention_bias,
            out_biases=config.attention_bias,
        ),
        mlp=dense_mlp(biases=config.mlp_bias),
        rope=read_rope(
            config.rope_parameters,
            head_dim=head_dim,
            max_positions=config.max_position_embeddings,
        ),
    )
    return dense_decoder(config, layers=[block] * config.num_hidden_layers, output_norm=norm)


# fmt: off
LAYER = "transformer.layers.{i}"
WEIGHTS: Table = {
    "model.embed_tokens.weight":                        TOKEN_TABLE,
    "lm_head.weight":                                   READOUT,
    "model.layers.{i}.input_layernorm.weight":          f"{LAYER}.pre_mixer_norm.scales",
    "model.layers.{i}.self_attn.{q,k,v}_proj.weight":   f"{LAYER}.mixer.qkvg_projection.weights",
    "model.layers.{i}.self_attn.{q,k,v}_proj.bias":     f"{LAYER}.mixer.qkvg_projection.biases",
    "model.layers.{i}.self_attn.o_proj.weight":         f"{LAYER}.mixer.out_projection.weights",
    "model.layers.{i}.self_attn.o_proj.bias":           f"{LAYER}.mixer.out_projection.biases",
    "model.layers.{i}.self_attn.rotary_emb.inv_freq":   Unused("computed from the config"),
    "model.layers.{i}.post_attention_layernorm.weight": f"{LAYER}.pre_mlp_norm.scales",
    "model.layers.{i}.mlp.{up,gate}_proj.weight":       f"{LAYER}.mlp.up_projection.weights",
    "model.layers.{i}.mlp.{up,gate}_proj.bias":         f"{LAYER}.mlp.up_projection.biases",
    "model.layers.{i}.mlp.down_proj.weight":            f"{LAYER}.mlp.down_projection.weights",
    "model.layers.{i}.mlp.down_proj.bias":              f"{LAYER}.mlp.down_projection.biases",
    "model.norm.weight":                                "transformer.output_norm.scales",
}
# fmt: on

FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "llama",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "attention_bias": True,
        "mlp_bias": True,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 500000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    },
)
