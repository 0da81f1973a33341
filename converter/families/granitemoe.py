"""Granite-MoE: Granite with packed experts, whose down projections take the residual multiplier."""

from typing import ClassVar

from masu.converter.assemble import attention, dense_decoder, layer, rms_norm
from masu.converter.families import granite, llama
from masu.converter.family import Family
from masu.converter.mixture import mixture
from masu.converter.rope import read_rope
from masu.converter.table import Table, Target, second_half_first, times
from masu.specs.blocks.decoder import DecoderConfig


class Config(granite.MultipliedConfig):
    RENAMED: ClassVar = {"num_experts": "num_local_experts"}

    num_local_experts: int = 8
    num_experts_per_tok: int = 2


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
        mlp=mixture(
            num_experts=config.num_local_experts,
            num_active=config.num_experts_per_tok,
            hidden_dim=config.intermediate_size,
        ),
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


def moe_weights(mixture: str, residual_multiplier: float) -> Table:
    """The router and the packed experts of a mixture at this engine path; gate rows come first."""
    up, down = f"{mixture}.experts.up_projection", f"{mixture}.experts.down_projection"
    moe = "model.layers.{i}.block_sparse_moe"
    return {
        f"{moe}.router.layer.weight": f"{mixture}.router.weights",
        f"{moe}.input_linear.weight": Target(f"{up}.weights", packed=True, rows=second_half_first),
        f"{moe}.output_linear.weight": Target(
            f"{down}.weights", packed=True, values=times(residual_multiplier)
        ),
    }


def weights(config: Config) -> Table:
    return {
        **granite.weights(config),
        **moe_weights(f"{llama.LAYER}.mlp", config.residual_multiplier),
    }


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=weights,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        **{key: value for key, value in granite.FAMILY.tiny.items() if key != "mlp_bias"},
        "model_type": "granitemoe",
        "num_local_experts": 5,
        "num_experts_per_tok": 2,
    },
)
