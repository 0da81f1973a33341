"""LFM2: short convolutions in most layers, attention with query and key norms in the others."""

from typing import ClassVar, Literal

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer, rms_norm
from masu.converter.config import NOT_INFERENCE, DenseConfig, Epsilon
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.layer_kinds import layer_kinds
from masu.converter.rope import read_rope
from masu.converter.sliding import FULL
from masu.converter.table import Table, Target
from masu.converter.views import squeezed
from masu.specs.blocks.biased_short_conv import BiasedShortConvConfig
from masu.specs.blocks.conv import SeparableCausalConvConfig
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.short_conv import ShortConvConfig

CONV = "conv"


class Config(DenseConfig):
    """`norm_eps` and `conv_L_cache` are this family's own words; releases add older ones."""

    RENAMED: ClassVar = {
        "block_dim": "hidden_size",
        "block_ff_dim": "intermediate_size",
        "block_norm_eps": "rms_norm_eps",
        "conv_dim": "hidden_size",
        "conv_dim_out": "hidden_size",
        "norm_eps": "rms_norm_eps",
        "num_heads": "num_attention_heads",
        "tie_embedding": "tie_word_embeddings",
    }
    INERT: ClassVar = {
        "block_mlp_init_scale": NOT_INFERENCE,
        "block_out_init_scale": NOT_INFERENCE,
        "block_use_xavier_init": NOT_INFERENCE,
        "conv_use_xavier_init": NOT_INFERENCE,
        "theta": "transformers reads the base of the rotation elsewhere",
    }

    rms_norm_eps: Epsilon = 1e-5
    tie_word_embeddings: bool = True
    block_auto_adjust_ff_dim: bool = True
    block_ffn_dim_multiplier: float | None = 1.0
    block_multiple_of: int = 256
    block_use_swiglu: Literal[True] = True
    conv_bias: bool = False
    conv_L_cache: int = 3  # noqa: N815 - the checkpoint's spelling
    full_attn_idxs: tuple[int, ...] | None = None
    layer_types: tuple[str, ...] | None = None
    use_pos_enc: Literal[True] = True

    @property
    def hidden_dim(self) -> int:
        """Width of the MLPs: two thirds, times a multiplier, rounded up, where that is on."""
        if not self.block_auto_adjust_ff_dim:
            return self.intermediate_size
        width, multiple = int(2 * self.intermediate_size / 3), self.block_multiple_of
        if self.block_ffn_dim_multiplier is None:
            return width
        return -(-int(self.block_ffn_dim_multiplier * width) // multiple) * multiple


def kinds(config: Config) -> tuple[str, ...]:
    """Every layer attends where the config does not say which do."""
    count, places = config.num_hidden_layers, config.full_attn_idxs
    attending = range(count) if places is None else places
    rule = [FULL if index in attending else CONV for index in range(count)]
    return layer_kinds(config.layer_types, rule, (CONV, FULL))


def short_conv(kernel_size: int, *, biases: bool) -> ShortConvConfig | BiasedShortConvConfig:
    """The engine's has no biases on its projections."""
    plain = ShortConvConfig(
        type="ShortConvConfig",
        in_projection_config=LinearConfig(),
        conv_config=SeparableCausalConvConfig(has_biases=biases),
        out_projection_config=LinearConfig(),
        kernel_size=kernel_size,
    )
    if not biases:
        return plain
    return BiasedShortConvConfig(type="BiasedShortConvConfig", short_conv_config=plain)


def build(config: Config) -> DecoderConfig:
    norm = rms_norm(config.rms_norm_eps)
    attending = attention(
        num_heads=config.num_attention_heads,
        num_groups=config.num_groups,
        head_dim=config.even_head_dim,
        query_key_norm=norm,
    )
    rope = read_rope(
        config.rope_parameters,
        head_dim=config.even_head_dim,
        max_positions=config.max_position_embeddings,
        default_theta=1000000.0,
    )
    conv = short_conv(config.conv_L_cache, biases=config.conv_bias)
    layers = [
        layer(
            norm=norm,
            mixer=attending if kind == FULL else conv,
            mlp=dense_mlp(),
            rope=rope if kind == FULL else None,
        )
        for kind in kinds(config)
    ]
    return dense_decoder(config, layers=layers, output_norm=norm, hidden_dim=config.hidden_dim)


# fmt: off
MIXER, MLP = f"{llama.LAYER}.mixer", f"{llama.LAYER}.mlp"
TAPS = Target(f"{MIXER}.conv.weights", view=squeezed)
WEIGHTS: Table = {
    "model.embed_tokens.weight":                       llama.WEIGHTS["model.embed_tokens.weight"],
    "lm_head.weight":                                  llama.WEIGHTS["lm_head.weight"],
    "model.layers.{i}.operator_norm.weight":           f"{llama.LAYER}.pre_mixer_norm.scales",
    "model.layers.{i}.self_attn.{q,k,v}_proj.weight":  f"{MIXER}.qkvg_projection.weights",
    "model.layers.{i}.self_attn.out_proj.weight":      f"{MIXER}.out_projection.weights",
    "model.layers.{i}.self_attn.q_layernorm.weight":   f"{MIXER}.query_norm.scales",
    "model.layers.{i}.self_attn.k_layernorm.weight":   f"{MIXER}.key_norm.scales",
    "model.layers.{i}.conv.in_proj.weight":            f"{MIXER}.in_projection.weights",
    "model.layers.{i}.conv.in_proj.bias":              f"{MIXER}.in_projection.biases",
    "model.layers.{i}.conv.conv.weight":               TAPS,
    "model.layers.{i}.conv.conv.bias":                 f"{MIXER}.conv.biases",
    "model.layers.{i}.conv.out_proj.weight":           f"{MIXER}.out_projection.weights",
    "model.layers.{i}.conv.out_proj.bias":             f"{MIXER}.out_projection.biases",
    "model.layers.{i}.ffn_norm.weight":                f"{llama.LAYER}.pre_mlp_norm.scales",
    "model.layers.{i}.feed_forward.{w3,w1}.weight":    f"{MLP}.up_projection.weights",
    "model.layers.{i}.feed_forward.w2.weight":         f"{MLP}.down_projection.weights",
    "model.embedding_norm.weight":                     "transformer.output_norm.scales",
}
# fmt: on

FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "lfm2",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "norm_eps": 1e-5,
        "tie_word_embeddings": True,
        "block_auto_adjust_ff_dim": False,
        "conv_L_cache": 3,
        "layer_types": ["conv", "full_attention", "conv"],
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    },
    variants=(
        {
            "block_auto_adjust_ff_dim": True,
            "block_ffn_dim_multiplier": 1.4,
            "block_multiple_of": 16,
        },
        {"layer_types": None, "full_attn_idxs": [2], "conv_L_cache": 4},
        {"tie_word_embeddings": False, "conv_bias": True},
    ),
)
