"""Llamba: Llama with discrete Mamba-2 in the place of attention. transformers does not have it."""

from typing import ClassVar, Literal

from masu.converter.assemble import dense_decoder, dense_mlp, layer, rms_norm
from masu.converter.config import NOT_INFERENCE, Epsilon, HFConfig
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.table import READOUT, TOKEN_TABLE, Table, Target
from masu.converter.views import squeezed
from masu.specs.blocks.activation import Identity
from masu.specs.blocks.conv import SeparableCausalConvConfig
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.mamba2 import Mamba2Config


class MLPKeys(HFConfig):
    intermediate_size: int
    bias: bool
    act_fn: Literal["silu"]


class MixerKeys(HFConfig):
    """With `bias` the checkpoint would have no bias of the gate, which the engine asks for."""

    d_state: int
    n_v_heads: int
    n_qk_heads: int
    expand: int
    activation: Literal["identity"]
    bias: Literal[False]
    conv_bias: bool = True
    d_conv: int = 4
    chunk_size: int | None = None
    """How a long prompt is cut; the result does not depend on it."""


class Config(HFConfig):
    """The family's own words for what others call `hidden_size` and the like."""

    RENAMED: ClassVar = {
        "d_model": "hidden_size",
        "n_layer": "num_hidden_layers",
        "norm_epsilon": "rms_norm_eps",
        "tie_embeddings": "tie_word_embeddings",
    }
    INERT: ClassVar = {"resid_dropout": NOT_INFERENCE}

    vocab_size: int
    pad_vocab_size_multiple: int
    hidden_size: int
    num_hidden_layers: int
    rms_norm_eps: Epsilon
    tie_word_embeddings: bool
    lm_head_bias: Literal[False]
    mlp_cfg: MLPKeys
    ssm_cfg: MixerKeys

    @property
    def intermediate_size(self) -> int:
        return self.mlp_cfg.intermediate_size

    @property
    def padded_vocab_size(self) -> int:
        """Rows of the token table."""
        multiple = self.pad_vocab_size_multiple
        return -(-self.vocab_size // multiple) * multiple


def mamba2(config: Config) -> Mamba2Config:
    keys = config.ssm_cfg
    return Mamba2Config(
        type="Mamba2Config",
        in_projection_config=LinearConfig(),
        out_projection_config=LinearConfig(),
        conv_config=SeparableCausalConvConfig(has_biases=keys.conv_bias),
        activation=Identity(type="Identity"),
        kernel_size=keys.d_conv,
        num_heads=keys.n_v_heads,
        num_groups=keys.n_qk_heads,
        head_dim=keys.expand * config.hidden_size // keys.n_v_heads,
        state_dim=keys.d_state,
        has_in_biases=False,
        has_out_biases=False,
    )


def build(config: Config) -> DecoderConfig:
    norm = rms_norm(config.rms_norm_eps)
    mlp = dense_mlp(biases=config.mlp_cfg.bias)
    block = layer(norm=norm, mixer=mamba2(config), mlp=mlp, rope=None)
    decoder = dense_decoder(config, layers=[block] * config.num_hidden_layers, output_norm=norm)
    return decoder.model_copy(update={"vocab_size": config.padded_vocab_size})


# fmt: off
MIXER, MLP = f"{llama.LAYER}.mixer", f"{llama.LAYER}.mlp"
TAPS = Target(f"{MIXER}.conv.weights", view=squeezed)
WEIGHTS: Table = {
    "backbone.embedding.weight":                           TOKEN_TABLE,
    "lm_head.weight":                                      READOUT,
    "backbone.layers.{i}.input_layernorm.weight":          f"{llama.LAYER}.pre_mixer_norm.scales",
    "backbone.layers.{i}.mixer.in_proj.weight":            f"{MIXER}.in_projection.weights",
    "backbone.layers.{i}.mixer.conv1d.weight":             TAPS,
    "backbone.layers.{i}.mixer.conv1d.bias":               f"{MIXER}.conv.biases",
    "backbone.layers.{i}.mixer.D":                         f"{MIXER}.skip_connection_weight",
    "backbone.layers.{i}.mixer.z_bias":                    f"{MIXER}.gate_bias",
    "backbone.layers.{i}.mixer.out_proj.weight":           f"{MIXER}.out_projection.weights",
    "backbone.layers.{i}.post_attention_layernorm.weight": f"{llama.LAYER}.pre_mlp_norm.scales",
    "backbone.layers.{i}.mlp.{up,gate}_proj.weight":       f"{MLP}.up_projection.weights",
    "backbone.layers.{i}.mlp.{up,gate}_proj.bias":         f"{MLP}.up_projection.biases",
    "backbone.layers.{i}.mlp.down_proj.weight":            f"{MLP}.down_projection.weights",
    "backbone.layers.{i}.mlp.down_proj.bias":              f"{MLP}.down_projection.biases",
    "backbone.final_layernorm.weight":                     "transformer.output_norm.scales",
}
# fmt: on

FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
)
