"""Qwen2-MoE: Qwen2 with mixtures of experts, each beside a gated shared expert."""

from typing import ClassVar, Protocol

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer, rms_norm
from masu.converter.config import SiluConfig
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.mixture import beside_shared_expert, mixture, softmax_routing
from masu.converter.rope import read_rope
from masu.converter.sliding import windows
from masu.converter.table import Table, Target, second_half_first
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.mlp import MLPConfig


class Config(SiluConfig):
    RENAMED: ClassVar = {"num_local_experts": "num_experts"}

    qkv_bias: bool = True
    use_sliding_window: bool = False
    sliding_window: int | None = 4096
    max_window_layers: int = 28
    layer_types: tuple[str, ...] | None = None
    decoder_sparse_step: int = 1
    mlp_only_layers: tuple[int, ...] | None = None
    num_experts: int = 60
    num_experts_per_tok: int = 4
    moe_intermediate_size: int = 1408
    shared_expert_intermediate_size: int = 5632
    norm_topk_prob: bool = False


class SharedExpert(Protocol):
    """The keys by which Qwen configs describe a mixture and the expert beside it."""

    num_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    shared_expert_intermediate_size: int

    @property
    def norm_topk_prob(self) -> bool: ...


def shared_is_stacked(config: SharedExpert) -> bool:
    """Whether the shared expert is as wide as the routed ones, and the engine's own."""
    return config.shared_expert_intermediate_size == config.moe_intermediate_size


class SparseLayers(Protocol):
    """The keys by which Qwen configs say which layers have experts."""

    num_hidden_layers: int
    decoder_sparse_step: int
    mlp_only_layers: tuple[int, ...] | None
    num_experts: int


def has_experts(config: SparseLayers) -> list[bool]:
    """Every `decoder_sparse_step`-th layer that is not among `mlp_only_layers`."""
    dense, step = config.mlp_only_layers or (), config.decoder_sparse_step
    return [
        config.num_experts > 0 and index not in dense and (index + 1) % step == 0
        for index in range(config.num_hidden_layers)
    ]


def layer_windows(config: Config) -> list[int | None]:
    """Every second layer below `max_window_layers` slides, if windows are turned on."""
    rule = [
        config.use_sliding_window and index % 2 == 0 and index < config.max_window_layers
        for index in range(config.num_hidden_layers)
    ]
    return windows(config.layer_types, rule, config.sliding_window)


def sparse_mlp(config: SharedExpert) -> MLPConfig:
    is_stacked = shared_is_stacked(config)
    routed = mixture(
        num_experts=config.num_experts,
        num_active=config.num_experts_per_tok,
        hidden_dim=config.moe_intermediate_size,
        routing=softmax_routing(normalized=config.norm_topk_prob),
        num_shared=1 if is_stacked else 0,
        shared_gate=is_stacked,
    )
    if is_stacked:
        return routed
    return beside_shared_expert(
        routed, hidden_dim=config.shared_expert_intermediate_size, gate=True
    )


def build(config: Config) -> DecoderConfig:
    norm = rms_norm(config.rms_norm_eps)
    rope = read_rope(
        config.rope_parameters,
        head_dim=config.even_head_dim,
        max_positions=config.max_position_embeddings,
    )
    layers = [
        layer(
            norm=norm,
            mixer=attention(
                num_heads=config.num_attention_heads,
                num_groups=config.num_groups,
                head_dim=config.even_head_dim,
                window=window,
                qkv_biases=config.qkv_bias,
            ),
            mlp=sparse_mlp(config) if is_sparse else dense_mlp(),
            rope=rope,
        )
        for window, is_sparse in zip(layer_windows(config), has_experts(config), strict=True)
    ]
    return dense_decoder(config, layers=layers, output_norm=norm)


# fmt: off
MLP = f"{llama.LAYER}.mlp"


def routed_weights(mixture: str) -> Table:
    """The router and the routed experts of a mixture at this engine path."""
    up, down = f"{mixture}.experts.up_projection", f"{mixture}.experts.down_projection"
    return {
        "model.layers.{i}.mlp.gate.weight":                       f"{mixture}.router.weights",
        "model.layers.{i}.mlp.experts.{e}.{up,gate}_proj.weight": f"{up}.weights",
        "model.layers.{i}.mlp.experts.{e}.down_proj.weight":      f"{down}.weights",
        "model.layers.{i}.mlp.experts.gate_up_proj":
            Target(f"{up}.weights", packed=True, rows=second_half_first),
        "model.layers.{i}.mlp.experts.down_proj":
            Target(f"{down}.weights", packed=True),
    }


def stacked_shared_weights(mixture: str) -> Table:
    """A shared expert that follows the routed ones of the same mixture."""
    up, down = f"{mixture}.experts.up_projection", f"{mixture}.experts.down_projection"
    expert = "model.layers.{i}.mlp.shared_expert"
    return {
        f"{expert}.{{up,gate}}_proj.weight": Target(f"{up}.weights", after=True),
        f"{expert}.down_proj.weight":        Target(f"{down}.weights", after=True),
        f"{expert}_gate.weight":             f"{mixture}.gate.weights",
    }


def shared_weights(mlp: str) -> Table:
    """A shared expert beside the mixture."""
    up, down = f"{mlp}.shared.up_projection", f"{mlp}.shared.down_projection"
    return {
        "model.layers.{i}.mlp.shared_expert.{up,gate}_proj.weight": f"{up}.weights",
        "model.layers.{i}.mlp.shared_expert.down_proj.weight":      f"{down}.weights",
        "model.layers.{i}.mlp.shared_expert_gate.weight":           f"{mlp}.gate.weights",
    }
# fmt: on


def expert_weights(config: SharedExpert) -> Table:
    """The whole mixture, wherever the width of the shared expert puts it."""
    if shared_is_stacked(config):
        return {**routed_weights(MLP), **stacked_shared_weights(MLP)}
    return {**routed_weights(f"{MLP}.mixture"), **shared_weights(MLP)}


def weights(config: Config) -> Table:
    return {**llama.WEIGHTS, **expert_weights(config)}


FAMILY = Family(
    config=Config,
    decoder=build,
    weights=weights,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "qwen2_moe",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "use_sliding_window": True,
        "sliding_window": 16,
        "max_window_layers": 2,
        "mlp_only_layers": [1],
        "num_experts": 5,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
        "shared_expert_intermediate_size": 128,
        "norm_topk_prob": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    },
    variants=(
        {
            "norm_topk_prob": True,
            "shared_expert_intermediate_size": 64,
            "use_sliding_window": False,
        },
        {"mlp_only_layers": [], "decoder_sparse_step": 2, "qkv_bias": False},
    ),
)
