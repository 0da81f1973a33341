"""Phi-3 and Phi-4-mini: fused projections in the checkpoint, LongRoPE over part of each head."""

from typing import Any, ClassVar

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer, rms_norm
from masu.converter.config import NOT_INFERENCE, SiluConfig
from masu.converter.families import llama
from masu.converter.family import Family
from masu.converter.rope import read_rope
from masu.converter.table import Table, Target, second_half_first
from masu.specs.blocks.decoder import DecoderConfig


class Config(SiluConfig):
    INERT: ClassVar = {
        "auto_map": "no remote code is ever run",
        "embd_pdrop": NOT_INFERENCE,
        "resid_pdrop": NOT_INFERENCE,
    }

    original_max_position_embeddings: int = 4096
    sliding_window: int | None = None


def rope_parameters(config: Config) -> dict[str, Any]:
    """Early releases say `su` or `yarn` for what became `longrope`; transformers reads both so."""
    given = dict(config.rope_parameters or {})
    if given.get("rope_type") in ("su", "yarn"):
        given["rope_type"] = "longrope"
    return given


def window(config: Config) -> int | None:
    """A window as long as the context hides nothing, and is not written."""
    size = config.sliding_window
    return None if size is None or size >= config.max_position_embeddings else size


def build(config: Config) -> DecoderConfig:
    norm = rms_norm(config.rms_norm_eps)
    block = layer(
        norm=norm,
        mixer=attention(
            num_heads=config.num_attention_heads,
            num_groups=config.num_groups,
            head_dim=config.even_head_dim,
            window=window(config),
        ),
        mlp=dense_mlp(),
        rope=read_rope(
            rope_parameters(config),
            head_dim=config.even_head_dim,
            max_positions=config.max_position_embeddings,
            original_positions=config.original_max_position_embeddings,
            partial=True,
        ),
    )
    return dense_decoder(config, layers=[block] * config.num_hidden_layers, output_norm=norm)


# fmt: off
MLP = f"{llama.LAYER}.mlp"
WEIGHTS: Table = {
    **llama.WEIGHTS,
    "model.layers.{i}.self_attn.qkv_proj.weight":
        f"{llama.LAYER}.mixer.qkvg_projection.weights",
    "model.layers.{i}.mlp.gate_up_proj.weight":
        Target(f"{MLP}.up_projection.weights", rows=second_half_first),
}
# fmt: on

FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "phi3",
        "vocab_size": 384,
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 192,
        "original_max_position_embeddings": 48,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "sliding_window": 16,
        "rope_parameters": {
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
            "original_max_position_embeddings": 48,
            "short_factor": [1.0, 1.05, 1.1, 1.2, 1.2, 1.25, 1.3, 1.3],
            "long_factor": [1.0, 1.2, 1.6, 2.0, 2.4, 2.8, 3.2, 4.0],
        },
    },
)
