"""Nemotron-H: layers of one block each, Mamba-2, attention, an MLP or a mixture of experts.

MLPs and experts have no gate and squared ReLU; attention does not know positions.
"""

import math
from typing import ClassVar, Literal

from masu.converter.assemble import (
    attention,
    dense_decoder,
    rms_norm,
    single_mixer_layer,
    ungated_mlp,
)
from masu.converter.config import NOT_INFERENCE, Epsilon, HFConfig, Size
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.layer_kinds import LINEAR, hybrid_kinds
from masu.converter.mamba2 import general_mamba2, mamba2_weights
from masu.converter.mixture import beside_shared_expert, in_latent_space, mixture, sigmoid_routing
from masu.converter.sliding import FULL
from masu.converter.table import READOUT, TOKEN_TABLE, Table, Unused
from masu.specs.blocks.activation import SquaredReLU
from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.general_mamba2 import GeneralMamba2Config
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.blocks.shared_expert import SharedExpertConfig
from masu.specs.blocks.single_mixer_layer import SingleMixerLayerConfig
from masu.specs.errors import ConfigError

DENSE, SPARSE = "mlp", "moe"
KINDS = (LINEAR, FULL, DENSE, SPARSE)
LETTERS = {"M": LINEAR, "*": FULL, "-": DENSE, "E": SPARSE}
"""How `hybrid_override_pattern` spells the kinds."""

DRAFTS = "layers that draft further tokens; the package does not keep them"
SQUARED_RELU = SquaredReLU(type="SquaredReLU")


class Config(HFConfig):
    """The step's lower limit is `time_step_min`: transformers does not read `time_step_limit`."""

    RENAMED: ClassVar = {
        "layer_types": "layers_block_type",
        "mamba_conv_bias": "use_conv_bias",
        "mamba_d_conv": "conv_kernel",
        "mamba_dt_min": "time_step_min",
        "mamba_n_groups": "n_groups",
        "num_local_experts": "n_routed_experts",
    }
    INERT: ClassVar = {
        "chunk_size": "how a long prompt is cut; the result does not depend on it",
        "expand": "the heads of Mamba-2 say how wide it is",
        "hidden_dropout": NOT_INFERENCE,
        "mamba_proj_bias": "transformers reads use_bias",
        "mamba_ssm_cache_dtype": "the recurrent state is always float32",
        "moe_shared_expert_overlap": "an order of work, not of sums",
        "mtp_hybrid_override_pattern": DRAFTS,
        "mtp_layers_block_type": DRAFTS,
        "num_hidden_layers": "the list of kinds says how many there are",
        "num_logits_to_keep": "how many logits transformers returns",
        "num_nextn_predict_layers": DRAFTS,
        "output_router_logits": "what transformers returns beside the logits",
        "rescale_prenorm_residual": NOT_INFERENCE,
        "residual_in_fp32": "transformers does not read it",
        "time_step_floor": NOT_INFERENCE,
        "time_step_limit": "transformers reads time_step_min",
        "time_step_max": NOT_INFERENCE,
        "use_mamba_kernels": "how transformers runs",
    }

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers_block_type: tuple[str, ...] | None = None
    hybrid_override_pattern: str | None = None
    tie_word_embeddings: bool = False
    layer_norm_epsilon: Epsilon = 1e-5
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: Size = 128
    attention_bias: Literal[False] = False
    sliding_window: None = None
    max_position_embeddings: int = 4096
    mlp_hidden_act: Literal["relu2"] = "relu2"
    mlp_bias: bool = False
    use_bias: bool = False
    ssm_state_size: int = 128
    mamba_num_heads: int = 128
    mamba_head_dim: Size = 64
    mamba_hidden_act: Literal["silu"] = "silu"
    n_groups: int = 8
    conv_kernel: int = 4
    use_conv_bias: bool = True
    time_step_min: float = 0.001
    n_routed_experts: int = 8
    n_shared_experts: Literal[1] = 1
    moe_intermediate_size: int = 7688
    moe_shared_expert_intermediate_size: int = 7688
    moe_latent_size: Size | None = None
    """Channels of the space in which routed experts work; None for the stream's own."""
    num_experts_per_tok: int = 2
    routed_scaling_factor: float = 1.0
    n_group: int = 1
    topk_group: int = 1
    norm_topk_prob: bool = True

    @property
    def kinds(self) -> tuple[str, ...]:
        """By the list, or else by the letters.

        Raises:
            ConfigError: neither of them, an unknown kind, or an unknown letter.
        """
        pattern = self.hybrid_override_pattern
        spelled = None if pattern is None else [LETTERS.get(letter, letter) for letter in pattern]
        given = spelled if self.layers_block_type is None else self.layers_block_type
        if given is None:
            raise ConfigError(
                "config.json: layers_block_type: expected a list of kinds, found no such key"
            )
        return hybrid_kinds(given, given, KINDS, "layers_block_type")

    @property
    def num_hidden_layers(self) -> int:
        return len(self.kinds)


def norm(config: Config) -> NormalizationConfig:
    return rms_norm(config.layer_norm_epsilon, upcast="full_layer")


def mamba2(config: Config) -> GeneralMamba2Config:
    return general_mamba2(
        num_heads=config.mamba_num_heads,
        num_groups=config.n_groups,
        head_dim=config.mamba_head_dim,
        state_dim=config.ssm_state_size,
        kernel_size=config.conv_kernel,
        norm=norm(config),
        step_limits=(config.time_step_min, math.inf),
        conv_biases=config.use_conv_bias,
        in_biases=config.use_bias,
        out_biases=config.use_bias,
    )


def attending(config: Config) -> AttentionConfig:
    return attention(
        num_heads=config.num_attention_heads,
        num_groups=config.num_key_value_heads,
        head_dim=config.head_dim,
    )


def sparse_mlp(config: Config) -> SharedExpertConfig:
    """Routed experts have no biases, whatever `mlp_bias` says."""
    routed = mixture(
        num_experts=config.n_routed_experts,
        num_active=config.num_experts_per_tok,
        hidden_dim=config.moe_intermediate_size,
        expert=ungated_mlp(SQUARED_RELU),
        routing=sigmoid_routing(
            corrected=True,
            normalized=config.norm_topk_prob,
            epsilon=1e-20,
            scale=config.routed_scaling_factor,
            num_groups=config.n_group,
            num_active_groups=config.topk_group,
        ),
    )
    width = config.moe_latent_size
    return beside_shared_expert(
        routed
        if width is None
        else in_latent_space(routed, latent_dim=width, biases=config.mlp_bias),
        hidden_dim=config.moe_shared_expert_intermediate_size,
        shared=ungated_mlp(SQUARED_RELU, biases=config.mlp_bias),
    )


def block(config: Config, kind: str) -> SingleMixerLayerConfig:
    match kind:
        case "linear_attention":
            return single_mixer_layer(norm=norm(config), mixer=mamba2(config))
        case "full_attention":
            return single_mixer_layer(norm=norm(config), mixer=attending(config))
        case "moe":
            return single_mixer_layer(norm=norm(config), mlp=sparse_mlp(config))
    dense = ungated_mlp(SQUARED_RELU, biases=config.mlp_bias)
    return single_mixer_layer(norm=norm(config), mlp=dense)


def build(config: Config) -> DecoderConfig:
    layers = [block(config, kind) for kind in config.kinds]
    return dense_decoder(config, layers=layers, output_norm=norm(config))


def weights(config: Config) -> Table:
    """All kinds are called `mixer` in the checkpoint, but have no name below it in common."""
    source, own = "backbone.layers.{i}.mixer", llama.LAYER
    mixture, shared, dense = f"{own}.mlp.mixture", f"{own}.mlp.shared", f"{own}.mlp"
    routed = mixture if config.moe_latent_size is None else f"{mixture}.mixture"
    # fmt: off
    return {
        "backbone.embeddings.weight":                TOKEN_TABLE,
        "lm_head.weight":                            READOUT,
        "backbone.layers.{i}.norm.weight":           f"{own}.norm.scales",
        **mamba2_weights(source, f"{own}.mixer", mamba2(config)),
        f"{source}.{{q,k,v}}_proj.weight":           f"{own}.mixer.qkvg_projection.weights",
        f"{source}.o_proj.weight":                   f"{own}.mixer.out_projection.weights",
        **mlp_weights(source, dense),
        f"{source}.gate.weight":                     f"{routed}.router.weights",
        f"{source}.gate.e_score_correction_bias":    f"{routed}.router.correction_biases",
        f"{source}.experts.{{e}}.up_proj.weight":    f"{routed}.experts.up_projection.weights",
        f"{source}.experts.{{e}}.down_proj.weight":  f"{routed}.experts.down_projection.weights",
        **latent_weights(source, mixture),
        **mlp_weights(f"{source}.shared_experts", shared),
        "backbone.norm_f.weight":                    "transformer.output_norm.scales",
        "mtp.*":                                     Unused(DRAFTS, left_out=True),
    }
    # fmt: on


def mlp_weights(source: str, mlp: str) -> Table:
    return {
        f"{source}.{name}_proj.{old}": f"{mlp}.{name}_projection.{new}"
        for name in ("up", "down")
        for old, new in (("weight", "weights"), ("bias", "biases"))
    }


def latent_weights(source: str, mixture: str) -> Table:
    """The projections into the experts' own space and out of it."""
    return {
        f"{source}.{given}_latent_proj.{old}": f"{mixture}.{name}_projection.{new}"
        for given, name in (("fc1", "in"), ("fc2", "out"))
        for old, new in (("weight", "weights"), ("bias", "biases"))
    }


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=weights,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "nemotron_h",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"],
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 256,
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": False,
        "mlp_bias": True,
        "use_bias": True,
        "ssm_state_size": 16,
        "mamba_num_heads": 6,
        "mamba_head_dim": 16,
        "n_groups": 2,
        "conv_kernel": 4,
        "time_step_min": 0.3,
        "n_routed_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
        "moe_shared_expert_intermediate_size": 96,
        "routed_scaling_factor": 1.5,
        "n_group": 3,
        "topk_group": 2,
    },
    variants=(
        {"n_groups": 1, "use_conv_bias": False, "use_bias": False, "mlp_bias": False},
        {"norm_topk_prob": False, "n_group": 1, "topk_group": 1, "moe_latent_size": 32},
        {"moe_latent_size": 64, "mlp_bias": False},
    ),
)
