"""Qwen3.5 (3.6, 3.8), text only: three layers of Gated DeltaNet to one of gated attention.

Query rows and the rows of their gate alternate head by head in the checkpoint; the engine has all
queries first and the gates last.
"""

from typing import Any, ClassVar, Literal

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer, rms_norm
from masu.converter.config import SiluConfig, Size
from masu.converter.families import llama, qwen3
from masu.converter.family import Family
from masu.converter.grouped_rows import every_part
from masu.converter.layer_kinds import LINEAR, layer_kinds
from masu.converter.rope import read_rope
from masu.converter.sliding import FULL
from masu.converter.table import Table, Target, Unused
from masu.converter.views import squeezed
from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.conv import SeparableCausalConvConfig
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.delta_net import DeltaNetConfig
from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.blocks.rope import RoPEConfig

FOR_IMAGES = ("mrope_section", "mrope_interleaved")
"""How the rotation is shared out among the axes of an image; text has the same place on all."""

DRAFTS = "layers that draft further tokens; the package does not keep them"


class HybridConfig(SiluConfig):
    """What the families with Gated DeltaNet layers share."""

    head_dim: Size = 256
    attention_bias: bool = False
    attn_output_gate: Literal[True] = True
    full_attention_interval: int = 4
    layer_types: tuple[str, ...] | None = None
    linear_conv_kernel_dim: int = 4
    linear_key_head_dim: Size = 128
    linear_value_head_dim: Size = 128
    linear_num_key_heads: int = 16
    linear_num_value_heads: int = 32

    @property
    def kinds(self) -> tuple[str, ...]:
        """Every `full_attention_interval`-th layer attends where there is no list."""
        interval = self.full_attention_interval
        count = self.num_hidden_layers
        rule = [LINEAR if (index + 1) % interval else FULL for index in range(count)]
        return layer_kinds(self.layer_types, rule, (LINEAR, FULL))


class Config(HybridConfig):
    INERT: ClassVar = {
        "mamba_ssm_dtype": "the recurrent state is always float32",
        "mlp_only_layers": "every layer has a dense MLP",
        "mtp_num_hidden_layers": DRAFTS,
        "mtp_use_dedicated_embeddings": DRAFTS,
    }


def hybrid_norm(config: HybridConfig) -> NormalizationConfig:
    """The checkpoint stores scale - 1."""
    return rms_norm(config.rms_norm_eps, offset=1.0)


def gated_attention(config: HybridConfig) -> AttentionConfig:
    plain = attention(
        num_heads=config.num_attention_heads,
        num_groups=config.num_groups,
        head_dim=config.head_dim,
        query_key_norm=hybrid_norm(config),
        qkv_biases=config.attention_bias,
        out_biases=config.attention_bias,
    )
    return plain.model_copy(update={"has_gate": True})


def delta_net(config: HybridConfig) -> DeltaNetConfig:
    """Unlike the others, its own norm has a plain scale."""
    return DeltaNetConfig(
        type="DeltaNetConfig",
        in_proj_config=LinearConfig(),
        conv_config=SeparableCausalConvConfig(has_biases=False),
        out_proj_config=LinearConfig(),
        norm_config=rms_norm(config.rms_norm_eps),
        num_heads=config.linear_num_value_heads,
        num_groups=config.linear_num_key_heads,
        head_dim=config.linear_key_head_dim,
        value_head_dim=config.linear_value_head_dim,
        kernel_size=config.linear_conv_kernel_dim,
    )


def partial_rope(config: HybridConfig) -> RoPEConfig:
    """A quarter of each head turns where the config does not say how much."""
    given: dict[str, Any] = {"partial_rotary_factor": 0.25, **(config.rope_parameters or {})}
    return read_rope(
        {key: value for key, value in given.items() if key not in FOR_IMAGES},
        head_dim=config.head_dim,
        max_positions=config.max_position_embeddings,
        partial=True,
    )


def build(config: Config) -> DecoderConfig:
    norm, rope = hybrid_norm(config), partial_rope(config)
    layers = [
        layer(
            norm=norm,
            mixer=gated_attention(config) if kind == FULL else delta_net(config),
            mlp=dense_mlp(),
            rope=rope if kind == FULL else None,
        )
        for kind in config.kinds
    ]
    return dense_decoder(config, layers=layers, output_norm=norm)


def mixer_weights(config: HybridConfig) -> Table:
    """Norms, attention and the parts of Gated DeltaNet that both layouts of it share."""
    own, mixer = "model.layers.{i}.linear_attn", f"{llama.LAYER}.mixer"
    queries, gates = (every_part([config.head_dim] * 2, place) for place in (0, 1))
    rows = (queries, None, None, gates)
    table = {key: target for key, target in qwen3.WEIGHTS.items() if "{q,k,v}" not in key}
    # fmt: off
    return {
        **table,
        "model.layers.{i}.self_attn.{q,k,v,q}_proj.weight":
            Target(f"{mixer}.qkvg_projection.weights", rows=rows),
        "model.layers.{i}.self_attn.{q,k,v,q}_proj.bias":
            Target(f"{mixer}.qkvg_projection.biases", rows=rows),
        f"{own}.conv1d.weight":    Target(f"{mixer}.conv.weights", view=squeezed),
        f"{own}.dt_bias":          f"{mixer}.dt_bias",
        f"{own}.A_log":            f"{mixer}.a_log",
        f"{own}.norm.weight":      f"{mixer}.norm.scales",
        f"{own}.out_proj.weight":  f"{mixer}.out_proj.weights",
        "mtp.*":                   Unused(DRAFTS, left_out=True),
    }
    # fmt: on


IN_PROJECTIONS = "model.layers.{i}.linear_attn.in_proj_{qkv,z,b,a}.weight"


def weights(config: HybridConfig) -> Table:
    return {**mixer_weights(config), IN_PROJECTIONS: f"{llama.LAYER}.mixer.in_proj.weights"}


TINY: dict[str, Any] = {
    "vocab_size": 384,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "attention_bias": True,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 24,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5,
    },
}

FAMILY = Family(
    config=Config,
    decoder=build,
    weights=weights,
    tied=lambda config: config.tie_word_embeddings,
    tiny={"model_type": "qwen3_5_text", **TINY, "intermediate_size": 64},
    variants=(
        {"layer_types": None, "num_hidden_layers": 4, "tie_word_embeddings": True},
        {"linear_num_value_heads": 2, "linear_conv_kernel_dim": 2, "attention_bias": False},
    ),
)
