"""Falcon-H1: attention and Mamba-2 side by side in every layer, and a dozen multipliers.

Those of embeddings, logits and keys are scales that the engine has, that of the MLP's gate is the
slope of its SiLU: `silu(m g) = m (g sigmoid(m g))`. The others are folded into the matrix before or
behind them, in float32, and rounded once.
"""

import math
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer, rms_norm
from masu.converter.checkpoint import SourceTensor
from masu.converter.config import NOT_INFERENCE, SiluConfig, Size
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.mamba2 import Limit, automatic_head_dim, general_mamba2, mamba2_weights
from masu.converter.rope import read_rope
from masu.converter.table import Table, Target, View, times
from masu.specs.blocks.activation import SiLU
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.general_mamba2 import GeneralMamba2Config
from masu.specs.blocks.mlp import MLPConfig
from masu.specs.blocks.parallel_mixer import ParallelMixerConfig


class Config(SiluConfig):
    """`ssm_multipliers` are those of z, x, B, C and dt; `mlp_multipliers` of gate and output."""

    INERT: ClassVar = {
        "attn_layer_indices": "every layer has both mixers",
        "mamba_chunk_size": "how a long prompt is cut; the result does not depend on it",
        "mlp_expansion_factor": "intermediate_size says it",
        "num_logits_to_keep": "how many logits transformers returns",
        "layers_block_type": "every layer is of one kind",
        "time_step_floor": NOT_INFERENCE,
        "time_step_max": NOT_INFERENCE,
        "time_step_min": NOT_INFERENCE,
    }

    head_dim: Size | None = None
    attention_bias: bool = False
    mlp_bias: bool = False
    projectors_bias: bool = False
    mamba_use_mlp: Literal[True] = True
    mamba_d_ssm: int | None = 1024
    mamba_n_heads: int = 128
    mamba_d_head: int | Literal["auto"] | None = "auto"
    mamba_n_groups: int = 1
    mamba_d_state: int = 256
    mamba_d_conv: int = 4
    mamba_expand: int = 2
    mamba_conv_bias: bool = True
    mamba_proj_bias: bool = False
    mamba_norm_before_gate: bool = True
    mamba_rms_norm: bool = False
    time_step_limit: tuple[Limit, Limit] = (0.0, math.inf)
    embedding_multiplier: float = 1.0
    lm_head_multiplier: float = 1.0
    mlp_multipliers: tuple[float, float] | None = None
    key_multiplier: float = 1.0
    attention_in_multiplier: float = 1.0
    attention_out_multiplier: float = 1.0
    ssm_in_multiplier: float = 1.0
    ssm_out_multiplier: float = 1.0
    ssm_multipliers: tuple[float, float, float, float, float] | None = None

    @property
    def gate_multiplier(self) -> float:
        return 1.0 if self.mlp_multipliers is None else self.mlp_multipliers[0]

    @property
    def down_multiplier(self) -> float:
        return 1.0 if self.mlp_multipliers is None else self.mlp_multipliers[1]

    @property
    def ssm_inner_dim(self) -> int:
        return self.mamba_d_ssm or self.mamba_expand * self.hidden_size


def mamba2(config: Config) -> GeneralMamba2Config:
    inner, heads = config.ssm_inner_dim, config.mamba_n_heads
    return general_mamba2(
        num_heads=heads,
        num_groups=config.mamba_n_groups,
        head_dim=automatic_head_dim(config.mamba_d_head, inner, heads),
        state_dim=config.mamba_d_state,
        kernel_size=config.mamba_d_conv,
        norm=rms_norm(config.rms_norm_eps, upcast="full_layer") if config.mamba_rms_norm else None,
        norm_before_gate=config.mamba_norm_before_gate,
        step_limits=config.time_step_limit,
        conv_biases=config.mamba_conv_bias,
        in_biases=config.mamba_proj_bias,
        out_biases=config.projectors_bias,
    )


def mixer(config: Config) -> ParallelMixerConfig:
    head_dim = config.head_dim or config.even_head_dim
    attending = attention(
        num_heads=config.num_attention_heads,
        num_groups=config.num_groups,
        head_dim=head_dim,
        scale=config.key_multiplier * head_dim**-0.5,
        qkv_biases=config.attention_bias,
        out_biases=config.attention_bias,
    )
    return ParallelMixerConfig(
        type="ParallelMixerConfig", attention_config=attending, mamba2_config=mamba2(config)
    )


def mlp(config: Config) -> MLPConfig:
    return dense_mlp(SiLU(type="SiLU", alpha=config.gate_multiplier), biases=config.mlp_bias)


def build(config: Config) -> DecoderConfig:
    norm = rms_norm(config.rms_norm_eps)
    rope = read_rope(
        config.rope_parameters,
        head_dim=config.head_dim or config.even_head_dim,
        max_positions=config.max_position_embeddings,
    )
    block = layer(norm=norm, mixer=mixer(config), mlp=mlp(config), rope=rope)
    return dense_decoder(
        config,
        layers=[block] * config.num_hidden_layers,
        output_norm=norm,
        input_scale=config.embedding_multiplier,
        logit_scale=config.lm_head_multiplier,
    )


def row_multipliers(config: Config) -> np.ndarray:
    """One for each row of Mamba-2's input projection: those of z, x, B, C and dt."""
    states = config.mamba_n_groups * config.mamba_d_state
    sizes = (config.ssm_inner_dim, config.ssm_inner_dim, states, states, config.mamba_n_heads)
    return np.repeat(np.asarray(config.ssm_multipliers or [1.0] * 5, np.float32), sizes)


def scaled_rows(factors: np.ndarray) -> View:
    """A tensor whose rows are multiplied by these, in float32."""

    def view(tensor: SourceTensor) -> SourceTensor:
        shape = (-1, *[1] * (len(tensor.shape) - 1))
        return replace(
            tensor,
            dtype="F32",
            raw=None,
            read=lambda start, stop: (
                tensor.read(start, stop).astype(np.float32) * factors[start:stop].reshape(shape)
            ),
        )

    return view


def weights(config: Config) -> Table:
    source, own = "model.layers.{i}", f"{llama.LAYER}.mixer"
    attending, mlp = f"{own}.attention", f"{llama.LAYER}.mlp"
    rows, into = row_multipliers(config), times(config.attention_in_multiplier)
    out, down = times(config.attention_out_multiplier), times(config.down_multiplier)
    folded = times(config.gate_multiplier * config.down_multiplier)
    qkv, projection = f"{attending}.qkvg_projection", f"{attending}.out_projection"
    up = f"{mlp}.up_projection"
    down_weights = Target(f"{mlp}.down_projection.weights", values=folded)
    down_biases = Target(f"{mlp}.down_projection.biases", values=down)
    # fmt: off
    return {
        "model.embed_tokens.weight":                  llama.WEIGHTS["model.embed_tokens.weight"],
        "lm_head.weight":                             llama.WEIGHTS["lm_head.weight"],
        f"{source}.input_layernorm.weight":           f"{llama.LAYER}.pre_mixer_norm.scales",
        f"{source}.self_attn.{{q,k,v}}_proj.weight":  Target(f"{qkv}.weights", values=into),
        f"{source}.self_attn.{{q,k,v}}_proj.bias":    f"{qkv}.biases",
        f"{source}.self_attn.o_proj.weight":          Target(f"{projection}.weights", values=out),
        f"{source}.self_attn.o_proj.bias":            Target(f"{projection}.biases", values=out),
        **mamba2_weights(
            f"{source}.mamba", f"{own}.mamba2", mamba2(config),
            in_weights=scaled_rows(rows * np.float32(config.ssm_in_multiplier)),
            in_biases=scaled_rows(rows), out_values=times(config.ssm_out_multiplier),
        ),
        f"{source}.pre_ff_layernorm.weight":              f"{llama.LAYER}.pre_mlp_norm.scales",
        f"{source}.feed_forward.{{up,gate}}_proj.weight": f"{up}.weights",
        f"{source}.feed_forward.{{up,gate}}_proj.bias":   f"{up}.biases",
        f"{source}.feed_forward.down_proj.weight":        down_weights,
        f"{source}.feed_forward.down_proj.bias":          down_biases,
        "model.final_layernorm.weight":                   "transformer.output_norm.scales",
    }
    # fmt: on


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=weights,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "falcon_h1",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "attention_bias": True,
        "mlp_bias": True,
        "projectors_bias": True,
        "mamba_d_ssm": 96,
        "mamba_n_heads": 6,
        "mamba_d_head": 16,
        "mamba_n_groups": 2,
        "mamba_d_state": 16,
        "mamba_d_conv": 4,
        "mamba_proj_bias": True,
        "mamba_norm_before_gate": True,
        "mamba_rms_norm": True,
        "time_step_limit": [0.1, 2.0],
        "embedding_multiplier": 3.0,
        "lm_head_multiplier": 0.7,
        "mlp_multipliers": [0.8, 1.3],
        "key_multiplier": 0.6,
        "attention_in_multiplier": 1.1,
        "attention_out_multiplier": 0.9,
        "ssm_in_multiplier": 1.2,
        "ssm_out_multiplier": 0.8,
        "ssm_multipliers": [0.7, 1.2, 0.9, 1.1, 0.8],
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    },
    variants=(
        {"mamba_norm_before_gate": False, "mamba_n_groups": 1, "mamba_conv_bias": False},
        {"mamba_rms_norm": False, "mamba_d_ssm": None, "mamba_expand": 1, "mamba_n_heads": 4},
        {"mlp_multipliers": None, "ssm_multipliers": None, "tie_word_embeddings": True},
    ),
)
