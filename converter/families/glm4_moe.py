"""GLM-4.5 to 4.7: sigmoid routing with corrections, experts beside shared ones, partial rotation.

The checkpoint has one more layer, which predicts the token after the next.
"""

from typing import ClassVar

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer, rms_norm
from masu.converter.config import Epsilon, SiluConfig, Size
from masu.converter.families import llama, qwen3
from masu.converter.families.qwen2_moe import routed_weights
from masu.converter.family import Family
from masu.converter.mixture import beside_shared_expert, mixture, sigmoid_routing
from masu.converter.rope import read_rope
from masu.converter.table import Table, Unused
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.shared_expert import SharedExpertConfig


class Config(SiluConfig):
    RENAMED: ClassVar = {
        "num_local_experts": "n_routed_experts",
        "num_mtp_layers": "num_nextn_predict_layers",
    }

    rms_norm_eps: Epsilon = 1e-5
    head_dim: Size | None = None
    attention_bias: bool = False
    use_qk_norm: bool = False
    first_k_dense_replace: int = 1
    n_routed_experts: int = 128
    n_shared_experts: int = 1
    num_experts_per_tok: int = 8
    moe_intermediate_size: int = 1408
    n_group: int = 1
    topk_group: int = 1
    norm_topk_prob: bool = True
    routed_scaling_factor: float = 1.0
    num_nextn_predict_layers: int = 1


def sparse_mlp(config: Config) -> SharedExpertConfig:
    routed = mixture(
        num_experts=config.n_routed_experts,
        num_active=config.num_experts_per_tok,
        hidden_dim=config.moe_intermediate_size,
        routing=sigmoid_routing(
            corrected=True,
            normalized=config.norm_topk_prob,
            epsilon=1e-20,
            scale=config.routed_scaling_factor,
            num_groups=config.n_group,
            num_active_groups=config.topk_group,
        ),
    )
    width = config.moe_intermediate_size * config.n_shared_experts
    return beside_shared_expert(routed, hidden_dim=width)


def build(config: Config) -> DecoderConfig:
    head_dim = config.head_dim or config.even_head_dim
    norm = rms_norm(config.rms_norm_eps)
    mixer = attention(
        num_heads=config.num_attention_heads,
        num_groups=config.num_groups,
        head_dim=head_dim,
        query_key_norm=norm if config.use_qk_norm else None,
        qkv_biases=config.attention_bias,
    )
    rope = read_rope(
        {"partial_rotary_factor": 0.5, **(config.rope_parameters or {})},
        head_dim=head_dim,
        max_positions=config.max_position_embeddings,
        partial=True,
    )
    layers = [
        layer(
            norm=norm,
            mixer=mixer,
            mlp=dense_mlp() if index < config.first_k_dense_replace else sparse_mlp(config),
            rope=rope,
        )
        for index in range(config.num_hidden_layers)
    ]
    return dense_decoder(config, layers=layers, output_norm=norm)


# fmt: off
MLP = f"{llama.LAYER}.mlp"
UP, DOWN = f"{MLP}.shared.up_projection", f"{MLP}.shared.down_projection"
WEIGHTS: Table = {
    **qwen3.WEIGHTS,
    **routed_weights(f"{MLP}.mixture"),
    "model.layers.{i}.mlp.gate.e_score_correction_bias":
        f"{MLP}.mixture.router.correction_biases",
    "model.layers.{i}.mlp.shared_experts.{up,gate}_proj.weight": f"{UP}.weights",
    "model.layers.{i}.mlp.shared_experts.down_proj.weight":      f"{DOWN}.weights",
}
# fmt: on


def weights(config: Config) -> Table:
    first = config.num_hidden_layers
    predicting = range(first, first + config.num_nextn_predict_layers)
    reason = "predicts the token after the next, for speculative decoding"
    left_out = Unused(reason, left_out=True, wins=True)
    return {**WEIGHTS, **{f"model.layers.{index}.*": left_out for index in predicting}}


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=weights,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "glm4_moe",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "attention_bias": True,
        "use_qk_norm": True,
        "first_k_dense_replace": 1,
        "n_routed_experts": 6,
        "n_shared_experts": 2,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
        "n_group": 3,
        "topk_group": 2,
        "norm_topk_prob": True,
        "routed_scaling_factor": 1.6,
        "num_nextn_predict_layers": 1,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.25,
        },
    },
    variants=(
        {"norm_topk_prob": False, "use_qk_norm": False, "attention_bias": False},
        {"n_group": 1, "topk_group": 1, "n_shared_experts": 1, "first_k_dense_replace": 0},
    ),
)
