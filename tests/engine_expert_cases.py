"""Cases of the rules on mixtures of experts."""

from engine_cases import (
    LAYER_PLACE,
    MIXTURE,
    UP,
    Case,
    Cases,
    Made,
    Values,
    int4,
    kept,
    made,
    on_expert,
    on_mlp,
)

MIXER, MLP_PLACE = f"{LAYER_PLACE}.mixer_config", f"{LAYER_PLACE}.mlp_config"


def widened(width: int) -> Made:
    """A mixture in a model of this width; attention keeps its own sizes."""

    def edit(values: Values) -> None:
        values["decoder_config"]["transformer_config"]["model_dim"] = width

    return made(on_mlp(MIXTURE), edit)


NORMAL = made()

EXPERT_CASES: Cases = {
    "no-mixtures": [
        Case(made(on_mlp(MIXTURE)), NORMAL, MLP_PLACE, "mixture of experts is not supported")
    ],
    "expert-counts": [
        Case(
            made(on_mlp(MIXTURE, num_routed_experts=513)),
            made(on_mlp(MIXTURE, num_routed_experts=512)),
            f"{MLP_PLACE}.num_routed_experts",
            "up to 512",
        ),
        Case(
            made(on_mlp(MIXTURE, num_routed_experts=200, num_active_routed_experts=129)),
            made(on_mlp(MIXTURE, num_routed_experts=200, num_active_routed_experts=128)),
            f"{MLP_PLACE}.num_active_routed_experts",
            "up to 128",
        ),
    ],
    "no-shared-experts": [
        Case(
            made(on_mlp(MIXTURE, **{name: value})),
            made(on_mlp(MIXTURE)),
            f"{MLP_PLACE}.{name}",
            "no shared experts",
        )
        for name, value in (("num_shared_experts", 1), ("gate_config", {}))
    ],
    "expert-biases": [
        Case(edited, made(on_mlp(MIXTURE)), f"{MLP_PLACE}.{name}", "asks for all biases")
        for name, edited in (
            ("router_has_biases", made(on_mlp(MIXTURE, router_has_biases=False))),
            ("expert_config.has_up_biases", made(on_expert(has_up_biases=False))),
            ("expert_config.has_down_biases", made(on_expert(has_down_biases=False))),
        )
    ],
    "expert-activations": [
        Case(
            made(on_expert(activation=activation)),
            made(on_expert(activation={"type": "GELU", "approximate": True})),
            f"{MLP_PLACE}.expert_config.activation",
            "SiLU and approximate GELU",
        )
        for activation in ({"type": "GELU", "approximate": False}, {"type": "Identity"})
    ],
    "expert-widths": [Case(widened(126), widened(124), MLP_PLACE, "not a multiple of 4")],
    "expert-formats": [
        Case(
            kept(f"{UP.removesuffix('up_projection.weights')}router.weights", int4(), EXPERTS),
            made(EXPERTS),
            f"{UP.removesuffix('up_projection.weights')}router.weights",
            "full precision",
        )
        for EXPERTS in (on_mlp(MIXTURE),)
    ],
}
