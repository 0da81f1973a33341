"""Granite 4: Mamba-2 and attention layers, mixtures of experts beside a shared MLP, multipliers.

The multipliers are folded as in Granite, also into the output projections of Mamba-2.
"""

import math
from typing import ClassVar, Literal

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer, rms_norm
from masu.converter.config import NOT_INFERENCE
from masu.converter.families import granite, llama
from masu.converter.families.granitemoe import moe_weights
from masu.converter.family import Family
from masu.converter.layer_kinds import LINEAR, hybrid_kinds
from masu.converter.mamba2 import Limit, automatic_head_dim, general_mamba2, mamba2_weights
from masu.converter.mixture import beside_shared_expert, mixture
from masu.converter.rope import read_rope
from masu.converter.table import Table, Target, second_half_first, times
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.general_mamba2 import GeneralMamba2Config
from masu.specs.blocks.mlp import MLPConfig
from masu.specs.blocks.rope import RoPEConfig


class Config(granite.MultipliedConfig):
    RENAMED: ClassVar = {"layers_block_type": "layer_types", "num_experts": "num_local_experts"}
    INERT: ClassVar = {
        "init_method": NOT_INFERENCE,
        "mamba_chunk_size": "how a long prompt is cut; the result does not depend on it",
    }

    num_local_experts: int = 8
    num_experts_per_tok: int = 2
    shared_intermediate_size: int = 1024
    position_embedding_type: Literal["rope", "nope"] | None = None
    normalization_function: Literal["rmsnorm"] = "rmsnorm"
    layer_types: tuple[str, ...] | None = None
    mamba_n_heads: int = 128
    mamba_n_groups: int = 1
    mamba_d_state: int = 256
    mamba_d_head: int | Literal["auto"] | None = "auto"
    mamba_d_conv: int = 4
    mamba_expand: int = 2
    mamba_conv_bias: bool = True
    mamba_proj_bias: bool = False
    time_step_limit: tuple[Limit, Limit] = (0.0, math.inf)


def mamba2(config: Config) -> GeneralMamba2Config:
    inner = config.mamba_expand * config.hidden_size
    return general_mamba2(
        num_heads=config.mamba_n_heads,
        num_groups=config.mamba_n_groups,
        head_dim=automatic_head_dim(config.mamba_d_head, inner, config.mamba_n_heads),
        state_dim=config.mamba_d_state,
        kernel_size=config.mamba_d_conv,
        norm=rms_norm(config.rms_norm_eps),
        step_limits=config.time_step_limit,
        conv_biases=config.mamba_conv_bias,
        in_biases=config.mamba_proj_bias,
        out_biases=config.mamba_proj_bias,
    )


def rope(config: Config) -> RoPEConfig | None:
    """Attention does not know positions where the config does not say that it does."""
    if config.position_embedding_type != "rope":
        return None
    return read_rope(
        config.rope_parameters,
        head_dim=config.even_head_dim,
        max_positions=config.max_position_embeddings,
    )


def mlp(config: Config) -> MLPConfig:
    """Without experts the shared MLP is all there is."""
    if config.num_local_experts == 0:
        return dense_mlp()
    routed = mixture(
        num_experts=config.num_local_experts,
        num_active=config.num_experts_per_tok,
        hidden_dim=config.intermediate_size,
    )
    return beside_shared_expert(routed, hidden_dim=config.shared_intermediate_size)


def build(config: Config) -> DecoderConfig:
    norm, rotation = rms_norm(config.rms_norm_eps), rope(config)
    attending = attention(
        num_heads=config.num_attention_heads,
        num_groups=config.num_groups,
        head_dim=config.even_head_dim,
        scale=config.attention_multiplier,
        qkv_biases=config.attention_bias,
        out_biases=config.attention_bias,
    )
    rule = [LINEAR] * config.num_hidden_layers
    layers = [
        layer(
            norm=norm,
            mixer=mamba2(config) if kind == LINEAR else attending,
            mlp=mlp(config),
            rope=None if kind == LINEAR else rotation,
        )
        for kind in hybrid_kinds(config.layer_types, rule)
    ]
    return dense_decoder(
        config,
        layers=layers,
        output_norm=norm,
        input_scale=config.embedding_multiplier,
        hidden_dim=config.shared_intermediate_size,
    )


def weights(config: Config) -> Table:
    residual, own = times(config.residual_multiplier), f"{llama.LAYER}.mlp"
    shared = own if config.num_local_experts == 0 else f"{own}.shared"
    up, down = f"{shared}.up_projection.weights", f"{shared}.down_projection.weights"
    source, mixer = "model.layers.{i}.mamba", f"{llama.LAYER}.mixer"
    shared_mlp = "model.layers.{i}.shared_mlp"
    return {
        **granite.weights(config),
        **mamba2_weights(source, mixer, mamba2(config), out_values=residual),
        **moe_weights(f"{own}.mixture", config.residual_multiplier),
        f"{shared_mlp}.input_linear.weight": Target(up, rows=second_half_first),
        f"{shared_mlp}.output_linear.weight": Target(down, values=residual),
    }


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=weights,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        **{key: value for key, value in granite.FAMILY.tiny.items() if key != "mlp_bias"},
        "model_type": "granitemoehybrid",
        "num_hidden_layers": 3,
        "layer_types": ["linear_attention", "full_attention", "linear_attention"],
        "position_embedding_type": "nope",
        "num_local_experts": 5,
        "num_experts_per_tok": 2,
        "shared_intermediate_size": 96,
        "mamba_n_heads": 8,
        "mamba_n_groups": 2,
        "mamba_d_state": 16,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
        "mamba_proj_bias": True,
        "time_step_limit": [0.1, 2.0],
    },
    variants=(
        {"num_local_experts": 0, "position_embedding_type": "rope", "mamba_proj_bias": False},
        {"mamba_n_groups": 1, "mamba_conv_bias": False, "mamba_d_conv": 2, "mamba_expand": 1},
    ),
)
