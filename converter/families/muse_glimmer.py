"""Muse Glimmer with its vision tower: the text model is converted, the tower is left out.

Gated attention over queries and keys with weightless norms; layers that see everything have no
rotation, layers that see a window rotate.
"""

from typing import Literal

from masu.converter.assemble import attention, dense_decoder, dense_mlp, layer, rms_norm
from masu.converter.config import DenseConfig, Epsilon, Size
from masu.converter.families import gemma2, llama
from masu.converter.family import Family
from masu.converter.rope import read_rope
from masu.converter.sliding import FULL, SLIDING, windows
from masu.converter.table import Table, Target, Unused, prefixed
from masu.converter.views import zeros
from masu.specs.blocks.decoder import DecoderConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.errors import ConfigError


class Config(DenseConfig):
    vocab_size: int = 202048
    hidden_size: int = 6656
    intermediate_size: int = 19968
    num_hidden_layers: int = 52
    num_attention_heads: int = 32
    num_key_value_heads: int | None = 2
    head_dim: Size = 128
    hidden_activation: Literal["silu"] = "silu"
    max_position_embeddings: int = 131072
    rms_norm_eps: Epsilon = 1e-5
    post_norm_eps: Epsilon = 1e-8
    attention_bias: bool = False
    sliding_window: int | None = 2048
    layer_types: tuple[str, ...] | None = None
    layer_rope_theta: tuple[float, ...] | None = None
    qk_scale_factor: float = 3.87
    output_multiplier: float = 0.19611613513818404
    final_logit_softcapping: float = 20.0


def weightless(epsilon: float) -> NormalizationConfig:
    """A root-mean-square norm without a scale."""
    return rms_norm(epsilon).model_copy(update={"has_scale": False})


def build(config: Config) -> DecoderConfig:
    spans = windows(
        config.layer_types, [not last for last in fourths(config)], config.sliding_window
    )
    rope = read_rope(
        config.rope_parameters,
        head_dim=config.head_dim,
        max_positions=config.max_position_embeddings,
    )
    layers = [
        layer(
            norm=rms_norm(config.rms_norm_eps, offset=1.0, upcast="full_layer"),
            post_norm=rms_norm(config.post_norm_eps, offset=1.0, upcast="full_layer"),
            mixer=attention(
                num_heads=config.num_attention_heads,
                num_groups=config.num_groups,
                head_dim=config.head_dim,
                query_key_norm=weightless(config.rms_norm_eps),
                scale=config.qk_scale_factor * config.head_dim**-0.5,
                window=span,
                qkv_biases=config.attention_bias,
                out_biases=config.attention_bias,
            ).model_copy(update={"has_gate": True}),
            mlp=dense_mlp(),
            rope=rope if rotates else None,
        )
        for span, rotates in zip(spans, rotating(config, rope.base), strict=True)
    ]
    decoder = dense_decoder(
        config,
        layers=layers,
        output_norm=rms_norm(config.rms_norm_eps, upcast="full_layer"),
        logit_scale=config.output_multiplier,
        logit_soft_cap=config.final_logit_softcapping,
    )
    return decoder.model_copy(update={"embedding_norm_config": weightless(config.rms_norm_eps)})


def fourths(config: Config) -> list[bool]:
    """Every fourth layer, counted from the last: by default these see everything, unrotated."""
    count = config.num_hidden_layers
    return [(count - 1 - index) % 4 == 0 for index in range(count)]


def rotating(config: Config, base: float) -> list[bool]:
    """Which layers rotate: those whose entry in `layer_rope_theta` is not 0.

    Raises:
        ConfigError: an entry of another base than the one that transformers rotates by, or a
            wrong number of them.
    """
    if config.layer_rope_theta is None:
        return [not last for last in fourths(config)]
    problems = [
        f"layer_rope_theta[{index}]: expected 0 or rope_theta {base}, found {theta}"
        for index, theta in enumerate(config.layer_rope_theta)
        if theta not in (0, base)
    ]
    if len(config.layer_rope_theta) != config.num_hidden_layers:
        found = len(config.layer_rope_theta)
        problems.append(f"layer_rope_theta: expected {config.num_hidden_layers}, found {found}")
    if problems:
        raise ConfigError("config.json: which layers rotate is not clear:", problems=problems)
    return [theta != 0 for theta in config.layer_rope_theta]


TOWER = Unused("the vision tower; the package is text only", left_out=True)
QKVG = f"{llama.LAYER}.mixer.qkvg_projection"

TEXT: Table = {
    **{key: target for key, target in gemma2.WEIGHTS.items() if "{q,k,v}" not in key},
    "model.layers.{i}.self_attn.{q,k,v,gate}_proj.weight": f"{QKVG}.weights",
    # The gate has no biases, and as many rows as the queries.
    "model.layers.{i}.self_attn.{q,k,v,q}_proj.bias": Target(
        f"{QKVG}.biases", view=(None, None, None, zeros)
    ),
}
WEIGHTS: Table = {
    **prefixed(TEXT, "model.", "model.language_model."),
    **prefixed(TEXT, "", "language_model."),
    "lm_head.weight": TEXT["lm_head.weight"],
    "*vision_tower.*": TOWER,
    "*vision_adapter.*": TOWER,
    "*vision_projection.*": TOWER,
}

FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "muse_glimmer",
        "text_config": {
            "model_type": "muse_glimmer_text",
            "vocab_size": 384,
            "hidden_size": 64,
            "intermediate_size": 64,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "max_position_embeddings": 256,
            "rms_norm_eps": 1e-5,
            "post_norm_eps": 1e-3,
            "tie_word_embeddings": False,
            "attention_bias": True,
            "sliding_window": 16,
            "layer_types": [SLIDING, SLIDING, FULL, FULL],
            "layer_rope_theta": [500000.0, 0.0, 500000.0, 0.0],
            "qk_scale_factor": 2.1,
            "output_multiplier": 0.7,
            "final_logit_softcapping": 9.0,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
        },
        "vision_config": {
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_attention_heads": 2,
            "num_hidden_layers": 1,
            "patch_size": 4,
            "patch_temporal": 2,
            "pos_emb_height": 4,
            "pos_emb_width": 4,
            "max_position_embeddings": 16,
        },
        "image_token_id": 310,
        "video_token_id": 311,
        "out_hidden_size": 128,
        "projector_hidden_size": 32,
    },
    text_config="text_config",
)
