"""Phi-3.5-MoE: sparse-mixer routing, layer norms and a readout with biases, LongRoPE.

The model multiplies its rotated queries and keys by a factor of its own, which the engine derives
from LongRoPE's scaling factor: that is chosen so that the derived one is the model's. Past the
original context masu turns by the long factors, as the model's own code does; transformers 5.24
stays with the short ones there.
"""

import math
from typing import ClassVar, Literal

from masu.converter.assemble import (
    attention,
    biased_readout,
    dense_decoder,
    layer,
    layer_norm,
)
from masu.converter.config import NOT_INFERENCE, Epsilon, SiluConfig
from masu.converter.families import llama, mixtral
from masu.converter.family import Family
from masu.converter.mixture import mixture
from masu.converter.rope import read_rope
from masu.converter.table import Table
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.embedding import tables_of
from masu.specs.blocks.rope import LongRoPEConfig, RoPEConfig
from masu.specs.blocks.routing import SparseMixerRouting
from masu.specs.errors import ConfigError


class Config(SiluConfig):
    RENAMED: ClassVar = {"num_experts": "num_local_experts"}
    INERT: ClassVar = {
        "auto_map": "no remote code is ever run",
        "hidden_dropout": NOT_INFERENCE,
        "input_jitter_noise": NOT_INFERENCE,
    }

    rms_norm_eps: Epsilon = 1e-5
    attention_bias: bool = False
    lm_head_bias: bool = False
    sliding_window: int | None = None
    original_max_position_embeddings: int | None = None
    num_experts_per_tok: Literal[2] = 2
    num_local_experts: int = 16
    router_jitter_noise: float = 0.01


def rope(config: Config) -> RoPEConfig:
    """Raises ConfigError where one factor serves short contexts and another long ones."""
    given = dict(config.rope_parameters or {})
    factors = [given.pop(name, None) for name in ("short_mscale", "long_mscale")]
    plain = read_rope(
        given,
        head_dim=config.even_head_dim,
        max_positions=config.max_position_embeddings,
        original_positions=config.original_max_position_embeddings,
        default_theta=1000000.0,
    )
    if not isinstance(plain, LongRoPEConfig):
        return plain
    short, long = factors
    if short is None or short != long or short < 1:
        raise ConfigError(
            "config.json: rope_parameters: expected short_mscale and long_mscale, equal and at "
            f"least 1, found {short!r} and {long!r}",
            hint="the engine has one attention factor for all lengths",
        )
    exponent = (short**2 - 1) * math.log(plain.original_context_length)
    return plain.model_copy(update={"scaling_factor": math.exp(exponent)})


def build(config: Config) -> DecoderConfig:
    norm = layer_norm(config.rms_norm_eps)
    window = config.sliding_window
    block = layer(
        norm=norm,
        mixer=attention(
            num_heads=config.num_attention_heads,
            num_groups=config.num_groups,
            head_dim=config.even_head_dim,
            window=window if window and window < config.max_position_embeddings else None,
            qkv_biases=config.attention_bias,
            out_biases=config.attention_bias,
        ),
        mlp=mixture(
            num_experts=config.num_local_experts,
            num_active=config.num_experts_per_tok,
            hidden_dim=config.intermediate_size,
            routing=SparseMixerRouting(
                type="SparseMixerRouting", jitter=config.router_jitter_noise
            ),
        ),
        rope=rope(config),
    )
    decoder = dense_decoder(config, layers=[block] * config.num_hidden_layers, output_norm=norm)
    if not config.lm_head_bias:
        return decoder
    embedding = biased_readout(tables_of(decoder.embedding_config))
    return decoder.model_copy(update={"embedding_config": embedding})


# fmt: off
WEIGHTS: Table = {
    **mixtral.WEIGHTS,
    "model.layers.{i}.input_layernorm.bias":          f"{llama.LAYER}.pre_mixer_norm.biases",
    "model.layers.{i}.post_attention_layernorm.bias": f"{llama.LAYER}.pre_mlp_norm.biases",
    "model.norm.bias":                                "transformer.output_norm.biases",
    "lm_head.bias":                                   "embedding.readout_biases",
}
# fmt: on

FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "phimoe",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "attention_bias": True,
        "lm_head_bias": True,
        "sliding_window": 16,
        "num_experts_per_tok": 2,
        "num_local_experts": 5,
        "router_jitter_noise": 0.2,
        "rope_parameters": {
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "original_max_position_embeddings": 64,
            "short_factor": [1.0, 1.05, 1.1, 1.2, 1.2, 1.25, 1.3, 1.3],
            "long_factor": [1.0, 1.2, 1.6, 2.0, 2.4, 2.8, 3.2, 4.0],
            "short_mscale": 1.243163121016122,
            "long_mscale": 1.243163121016122,
        },
    },
    variants=(
        {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
        {"lm_head_bias": False, "attention_bias": False, "router_jitter_noise": 0.01},
    ),
)
