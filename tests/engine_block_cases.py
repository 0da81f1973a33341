"""Cases of the rules on mixers, norms, MLPs and layer convolutions."""

from engine_cases import (
    BIASED_NORM,
    CENTRED_NORM,
    CONV,
    DELTA,
    LAYER_PLACE,
    LONG_ROPE,
    MAMBA,
    MLP,
    MODEL,
    NORM,
    QKV,
    SPECULATOR,
    Case,
    Cases,
    Made,
    Values,
    hybrid,
    kept,
    layer,
    made,
    on_expert,
    on_layer,
    on_mixer,
    on_mlp,
    on_weaver,
)

OLD, NEW = "uzu-0.5", "uzu-0.6"
MIXER, MLP_PLACE = f"{LAYER_PLACE}.mixer_config", f"{LAYER_PLACE}.mlp_config"


def norm_less(index: int, **formats: Values) -> Made:
    def edit(values: Values) -> None:
        layer(values, index)["pre_mixer_norm_config"] = None

    return Made((edit,), formats=formats)


NORMAL = made()

BLOCK_CASES: Cases = {
    "attention-head-dims": [
        Case(
            made(on_mixer(head_dim=size)),
            made(on_mixer(head_dim=twin)),
            f"{MIXER}.head_dim",
            f"{size}; kernels exist for 64, 128, 256, 512",
        )
        for size, twin in ((80, 64), (32, 128), (96, 256), (1024, 512))
    ],
    "no-attention-soft-cap": [
        Case(
            made(on_mixer(logit_soft_cap=50.0)),
            NORMAL,
            f"{MIXER}.logit_soft_cap",
            "caps no attention logits",
        )
    ],
    "static-long-rope": [
        Case(
            made(on_layer(rope_config=LONG_ROPE)),
            made(on_layer(rope_config={**LONG_ROPE, "original_context_length": 64})),
            f"{LAYER_PLACE}.rope_config.short_factor",
            "long factors for short contexts",
        )
    ],
    "qk-norm-biases": [
        Case(
            made(on_mixer(**{name: BIASED_NORM})),
            made(on_mixer(**{name: NORM})),
            f"{MIXER}.{name}.has_biases",
            "never reads these biases",
        )
        for name in ("query_norm_config", "key_norm_config")
    ],
    "qk-norm-means": [
        Case(
            made(on_mixer(**{name: CENTRED_NORM})),
            made(on_mixer(**{name: NORM})),
            f"{MIXER}.{name}.subtract_mean",
            "does not subtract the mean",
        )
        for name in ("query_norm_config", "key_norm_config")
    ],
    "delta-head-dims": [
        Case(
            made(on_mixer(DELTA, **{name: 64})),
            made(on_mixer(DELTA)),
            f"{MIXER}.{name}",
            "64; the kernel is for 128",
        )
        for name in ("head_dim", "value_head_dim")
    ],
    "delta-taps": {
        OLD: [
            Case(
                made(on_mixer(DELTA, kernel_size=1)),
                made(on_mixer(DELTA, kernel_size=2)),
                f"{MIXER}.kernel_size",
                "2 and more",
            )
        ],
        NEW: [
            Case(
                made(on_mixer(DELTA, kernel_size=size)),
                made(on_mixer(DELTA)),
                f"{MIXER}.kernel_size",
                "the kernel is for 4",
            )
            for size in (3, 5)
        ],
    },
    "delta-widths": [
        Case(
            made(on_mixer(DELTA, num_heads=2, num_groups=2)),
            made(on_mixer(DELTA)),
            f"{MIXER}.num_heads",
            "not a multiple of 8",
        )
    ],
    "delta-norm-arrays": [
        Case(
            made(on_mixer(DELTA, norm_config={**NORM, name: value})),
            made(on_mixer(DELTA)),
            f"{MIXER}.norm_config.{name}",
            "scales and nothing else",
        )
        for name, value in (("has_scale", False), ("has_biases", True))
    ],
    "delta-norm-fields": [
        Case(
            made(on_mixer(DELTA, norm_config={**NORM, name: value})),
            made(on_mixer(DELTA, norm_config={**NORM, "scale_offset": 0.0})),
            f"{MIXER}.norm_config.{name}",
            "nothing of this norm but its epsilon",
        )
        for name, value in (("scale_offset", 1.0), ("subtract_mean", True))
    ],
    "mixer-norms": [
        Case(
            norm_less(1),
            norm_less(0),
            LAYER_PLACE.replace("[0]", "[1].pre_mixer_norm_config"),
            "only the first layer",
        )
    ],
    "rotated-mixer-norms": [
        Case(norm_less(0, **{QKV: hybrid()}), kept(QKV, hybrid()), QKV, "no norm that could rotate")
    ],
    "layer-scalar-norms": [
        Case(
            made(on_layer(has_post_layer_scalar=True)),
            made(on_layer(has_post_layer_scalar=True, post_mlp_norm_config=NORM)),
            f"{LAYER_PLACE}.has_post_layer_scalar",
            "which is null",
        )
    ],
    "weaver-sizes": [
        Case(
            Made((on_weaver(**{name: value}),), SPECULATOR),
            made(model=SPECULATOR),
            f"speculator_config.weaver_config.{name}",
            reason,
        )
        for name, value, reason in (
            ("num_heads", 4, "heads of 64"),
            ("candidate_pool_size", 513, "up to 512"),
        )
    ],
    "plain-mlps": [
        Case(
            made(on_mlp(MLP, **{name: [None, 7.0]})),
            made(on_mlp(MLP, **{name: [None, None]})),
            f"{MLP_PLACE}.{name}",
            "clips nothing",
        )
        for name in ("gate_clipping", "up_clipping")
    ]
    + [
        Case(
            made(on_mlp(activation={"type": "SiLU", "alpha": 1.7})),
            made(on_expert(activation={"type": "SiLU", "alpha": 1.7}, gate_clipping=[None, 7.0])),
            f"{MLP_PLACE}.activation.alpha",
            "SiLU with alpha 1",
        )
    ],
    "mamba-biases": [
        Case(
            made(on_mixer(MAMBA, has_in_biases=True)),
            made(on_mixer(MAMBA, has_out_biases=True)),
            f"{MIXER}.has_in_biases",
            "F32 projection",
        )
    ],
    "gate-biases": [
        Case(
            made(on_mixer(has_gate=True, has_qkvg_biases=True)),
            made(on_mixer(has_gate=True)),
            f"{MIXER}.has_qkvg_biases",
            "gate's own projection has no biases",
        )
    ],
    "conv-groups": [
        Case(
            made(on_layer(**{name: {**CONV, "conv_group_size": 2}}), model=MODEL),
            made(on_layer(**{name: CONV})),
            f"{LAYER_PLACE}.{name}.conv_group_size",
            "must be multiples of 4",
        )
        for name in ("mixer_conv_config", "mlp_conv_config")
    ],
    "conv-history": [
        Case(
            made(on_layer(mixer_conv_config=CONV)),
            Made((on_layer(mixer_conv_config=CONV),), SPECULATOR),
            f"{LAYER_PLACE}.mixer_conv_config",
            "keeps no taps",
        )
    ],
}
