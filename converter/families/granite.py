"""Granite: Llama with four multipliers, two of which are folded into the weights.

The engine scales embeddings and attention itself; the residual multiplier goes into the output
and down projections, the divisor of the logits into the final norm. Folding happens in float32
and is rounded once.
"""

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer, rms_norm
from masu.converter.config import SiluConfig
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.rope import read_rope
from masu.converter.table import Table, Target, over, times
from masu.specs.blocks.decoder import DecoderConfig


class MultipliedConfig(SiluConfig):
    """What all families of Granite share."""

    attention_bias: bool = False
    embedding_multiplier: float = 1.0
    logits_scaling: float = 1.0
    residual_multiplier: float = 1.0
    attention_multiplier: float = 1.0


class Config(MultipliedConfig):
    mlp_bias: bool = False


def build(config: Config) -> DecoderConfig:
    norm = rms_norm(config.rms_norm_eps)
    block = layer(
        norm=norm,
        mixer=attention(
            num_heads=config.num_attention_heads,
            num_groups=config.num_groups,
            head_dim=config.even_head_dim,
            scale=config.attention_multiplier,
            qkv_biases=config.attention_bias,
            out_biases=config.attention_bias,
        ),
        mlp=dense_mlp(biases=config.mlp_bias),
        rope=read_rope(
            config.rope_parameters,
            head_dim=config.even_head_dim,
            max_positions=config.max_position_embeddings,
        ),
    )
    return dense_decoder(
        config,
        layers=[block] * config.num_hidden_layers,
        output_norm=norm,
        input_scale=config.embedding_multiplier,
    )


def weights(config: MultipliedConfig) -> Table:
    residual = times(config.residual_multiplier)
    mixer, mlp = f"{llama.LAYER}.mixer", f"{llama.LAYER}.mlp"
    out, down = f"{mixer}.out_projection", f"{mlp}.down_projection"
    # fmt: off
    return {
        **llama.WEIGHTS,
        "model.layers.{i}.self_attn.o_proj.weight":  Target(f"{out}.weights", values=residual),
        "model.layers.{i}.self_attn.o_proj.bias":    Target(f"{out}.biases", values=residual),
        "model.layers.{i}.mlp.down_proj.weight":     Target(f"{down}.weights", values=residual),
        "model.layers.{i}.mlp.down_proj.bias":       Target(f"{down}.biases", values=residual),
        "model.norm.weight":                         Target("transformer.output_norm.scales",
                                                            values=over(config.logits_scaling)),
    }
    # fmt: on


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=weights,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "granite",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
        "attention_bias": True,
        "mlp_bias": True,
        "embedding_multiplier": 6.0,
        "logits_scaling": 4.0,
        "residual_multiplier": 0.35,
        "attention_multiplier": 0.11,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    },
    variants=({"attention_bias": False, "mlp_bias": False},),
)
