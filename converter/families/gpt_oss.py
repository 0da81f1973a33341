"""GPT-OSS: attention sinks, and clipped experts with biases, whose gate and up rows alternate.

The experts come as MXFP4, whose codes and scales are kept, or as plain numbers, transposed. The
engine multiplies by `up` what the model multiplies by `up + 1`: the 1 goes into the biases, in
float32, rounded once, and into the bounds of the clip.
"""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer, rms_norm
from masu.converter.checkpoint import SourceTensor
from masu.converter.config import Epsilon, SiluConfig, Size
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.mixture import mixture
from masu.converter.mxfp4 import codes, halved, mxfp4, scales
from masu.converter.rope import read_rope
from masu.converter.sliding import windows
from masu.converter.table import Coded, Table, Target
from masu.converter.views import changed, odd_rows_first, transposed
from masu.specs.blocks.activation import SiLU
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.dense_mlp import DenseMLPConfig

DEFAULT_ROPE = {
    "rope_type": "yarn",
    "rope_theta": 150000.0,
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}


class Config(SiluConfig):
    RENAMED: ClassVar = {
        "num_experts": "num_local_experts",
        "experts_per_token": "num_experts_per_tok",
    }
    INERT: ClassVar = {"initial_context_length": "the rotary embedding has its own"}

    rms_norm_eps: Epsilon = 1e-5
    head_dim: Size = 64
    attention_bias: bool = True
    sliding_window: int | None = 128
    layer_types: tuple[str, ...] | None = None
    num_local_experts: int = 128
    num_experts_per_tok: int = 4
    swiglu_alpha: float = 1.702
    swiglu_limit: float = 7.0


def expert(config: Config) -> DenseMLPConfig:
    limit = config.swiglu_limit
    plain = dense_mlp(SiLU(type="SiLU", alpha=config.swiglu_alpha), biases=True)
    clips: dict[str, Any] = {
        "gate_clipping": (None, limit),
        "up_clipping": (1 - limit, 1 + limit),
    }
    return plain.model_copy(update=clips)


def build(config: Config) -> DecoderConfig:
    norm = rms_norm(config.rms_norm_eps, upcast="full_layer")
    rope = read_rope(
        config.rope_parameters or DEFAULT_ROPE,
        head_dim=config.head_dim,
        max_positions=config.max_position_embeddings,
        default_theta=150000.0,
    )
    alternating = [index % 2 == 0 for index in range(config.num_hidden_layers)]
    layers = [
        layer(
            norm=norm,
            mixer=attention(
                num_heads=config.num_attention_heads,
                num_groups=config.num_groups,
                head_dim=config.head_dim,
                window=window,
                qkv_biases=config.attention_bias,
                out_biases=config.attention_bias,
                sinks=True,
            ),
            mlp=mixture(
                num_experts=config.num_local_experts,
                num_active=config.num_experts_per_tok,
                hidden_dim=config.intermediate_size,
                expert=expert(config),
                router_biases=True,
            ),
            rope=rope,
        )
        for window in windows(config.layer_types, alternating, config.sliding_window)
    ]
    return dense_decoder(config, layers=layers, output_norm=norm)


def up_codes(blocks: SourceTensor) -> SourceTensor:
    return odd_rows_first(codes(blocks))


def up_scales(tensor: SourceTensor) -> SourceTensor:
    """The engine has groups of 16 here; the two halves of a block share its scale."""
    return odd_rows_first(halved(scales(tensor)))


def up_weights(tensor: SourceTensor) -> SourceTensor:
    return odd_rows_first(transposed(tensor))


def up_biases(tensor: SourceTensor) -> SourceTensor:
    """Float32, with 1 added to the up half."""
    ordered = odd_rows_first(tensor)
    half = tensor.shape[1] // 2
    one = np.repeat(np.array([1, 0], np.float32), half)
    wide = changed(ordered, ordered.shape, lambda values: values.astype(np.float32) + one)
    return replace(wide, dtype="F32")


# fmt: off
MLP = f"{llama.LAYER}.mlp"
UP, DOWN = f"{MLP}.experts.up_projection", f"{MLP}.experts.down_projection"
WEIGHTS: Table = {
    **llama.WEIGHTS,
    "model.layers.{i}.self_attn.sinks":            f"{llama.LAYER}.mixer.sinks",
    "model.layers.{i}.mlp.router.weight":          f"{MLP}.router.weights",
    "model.layers.{i}.mlp.router.bias":            f"{MLP}.router.biases",
    "model.layers.{i}.mlp.experts.gate_up_proj":
        Target(f"{UP}.weights", view=up_weights, packed=True),
    "model.layers.{i}.mlp.experts.gate_up_proj_blocks":
        Coded(f"{UP}.weights", format=mxfp4(16), array="weights", view=up_codes, packed=True),
    "model.layers.{i}.mlp.experts.gate_up_proj_scales":
        Coded(f"{UP}.weights", format=mxfp4(16), array="scales", view=up_scales, packed=True),
    "model.layers.{i}.mlp.experts.gate_up_proj_bias":
        Target(f"{UP}.biases", view=up_biases, packed=True),
    "model.layers.{i}.mlp.experts.down_proj":
        Target(f"{DOWN}.weights", view=transposed, packed=True),
    "model.layers.{i}.mlp.experts.down_proj_blocks":
        Coded(f"{DOWN}.weights", format=mxfp4(), array="weights", view=codes, packed=True),
    "model.layers.{i}.mlp.experts.down_proj_scales":
        Coded(f"{DOWN}.weights", format=mxfp4(), array="scales", view=scales, packed=True),
    "model.layers.{i}.mlp.experts.down_proj_bias":
        Target(f"{DOWN}.biases", packed=True),
}
# fmt: on

FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "gpt_oss",
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
        "sliding_window": 16,
        "num_local_experts": 5,
        "num_experts_per_tok": 2,
        "swiglu_alpha": 1.5,
        "swiglu_limit": 1.2,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": False,
            "original_max_position_embeddings": 32,
        },
    },
    variants=({"attention_bias": False, "layer_types": ["full_attention", "sliding_attention"]},),
)
