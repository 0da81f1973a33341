"""nanochat: norms without scales, also on the embedding, and an ungated MLP of squared ReLU.

Heads are turned the other way round: the halves of each head's rows of queries and keys are
exchanged, which changes no score. The checkpoint norms queries and keys after turning them; a norm
without scales gives the same before, where the engine has it.
"""

from typing import Literal

from masu.converter.assemble import attention, dense_decoder, layer, rms_norm, ungated_mlp
from masu.converter.config import DenseConfig, Epsilon
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.rope import read_rope
from masu.converter.rotary_rows import halves_exchanged
from masu.converter.table import READOUT, TOKEN_TABLE, Table, Target
from masu.specs.blocks.activation import SquaredReLU
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.rope import LongRoPEConfig, RoPEConfig, YARNRoPEConfig
from masu.specs.errors import ConfigError


class Config(DenseConfig):
    hidden_act: Literal["relu2"] = "relu2"
    rms_norm_eps: Epsilon = 1e-6
    attention_bias: bool = False
    final_logit_softcapping: float | None = 15.0


def rope(config: Config) -> RoPEConfig:
    """Only a rotation that keeps lengths can change places with the norm that follows it."""
    found = read_rope(
        config.rope_parameters,
        head_dim=config.even_head_dim,
        max_positions=config.max_position_embeddings,
    )
    if isinstance(found, YARNRoPEConfig | LongRoPEConfig):
        raise ConfigError(
            "config.json: rope_parameters.rope_type: expected default, linear or llama3, for this "
            f"family norms what it has turned, found {(config.rope_parameters or {})['rope_type']}"
        )
    return found


def build(config: Config) -> DecoderConfig:
    norm = rms_norm(config.rms_norm_eps).model_copy(update={"has_scale": False})
    block = layer(
        norm=norm,
        mixer=attention(
            num_heads=config.num_attention_heads,
            num_groups=config.num_groups,
            head_dim=config.even_head_dim,
            query_key_norm=norm,
            qkv_biases=config.attention_bias,
            out_biases=config.attention_bias,
        ),
        mlp=ungated_mlp(SquaredReLU(type="SquaredReLU")),
        rope=rope(config),
    )
    decoder = dense_decoder(
        config,
        layers=[block] * config.num_hidden_layers,
        output_norm=norm,
        logit_soft_cap=config.final_logit_softcapping,
    )
    return decoder.model_copy(update={"embedding_norm_config": norm})


def weights(config: Config) -> Table:
    turned, mixer = halves_exchanged(config.even_head_dim), f"{llama.LAYER}.mixer"
    # fmt: off
    return {
        "model.embed_tokens.weight":               TOKEN_TABLE,
        "lm_head.weight":                          READOUT,
        "model.layers.{i}.self_attn.{q,k,v}_proj.weight":
            Target(f"{mixer}.qkvg_projection.weights", rows=(turned, turned, None)),
        "model.layers.{i}.self_attn.{q,k,v}_proj.bias":
            Target(f"{mixer}.qkvg_projection.biases", rows=(turned, turned, None)),
        "model.layers.{i}.self_attn.o_proj.weight": f"{mixer}.out_projection.weights",
        "model.layers.{i}.self_attn.o_proj.bias":   f"{mixer}.out_projection.biases",
        "model.layers.{i}.mlp.fc1.weight":         f"{llama.LAYER}.mlp.up_projection.weights",
        "model.layers.{i}.mlp.fc2.weight":         f"{llama.LAYER}.mlp.down_projection.weights",
    }
    # fmt: on


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=weights,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "nanochat",
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
        "final_logit_softcapping": 15.0,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    },
    variants=({"attention_bias": False, "final_logit_softcapping": None},),
)
