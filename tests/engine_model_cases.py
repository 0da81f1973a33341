"""Cases of the rules on whole models."""

from engine_cases import (
    CLASSIFIER,
    CONV,
    DRAFTS,
    HYBRID_TABLE,
    LAYER_PLACE,
    MAMBA,
    REASONING,
    SPECULATOR,
    TIED,
    Case,
    Cases,
    Made,
    made,
    on_codec,
    on_generation,
    on_layer,
    on_mixer,
    on_mlp,
    tied,
)

OLD, NEW = "uzu-0.5", "uzu-0.6"
MIXER, MLP_PLACE = f"{LAYER_PLACE}.mixer_config", f"{LAYER_PLACE}.mlp_config"
GENERATION = "generation_config"
CODEC = "token_codec_config"
SHAPELESS = DRAFTS[:2]
PENALTY = on_generation(repetition_penalty=1.1, suffix_repetition_length=64)


def classifier(**changes: str) -> Made:
    return Made((lambda values: values["classifier_config"].update(changes),), CLASSIFIER)


NORMAL = made()

MODEL_CASES: Cases = {
    "known-types": {
        NEW: [Case(made(on_mixer(MAMBA)), NORMAL, MIXER, "the engine has no Mamba2Config")],
        OLD: [
            Case(
                made(on_mlp(activation={"type": "SquaredReLU"})),
                made(on_mixer(MAMBA)),
                f"{MLP_PLACE}.activation",
                "the engine has no SquaredReLU",
            )
        ],
    },
    "known-fields": [
        Case(
            made(on_layer(mixer_conv_config=CONV)),
            NORMAL,
            f"{LAYER_PLACE}.mixer_conv_config",
            "no such field",
        ),
        Case(
            made(on_layer(mlp_conv_config=CONV)),
            NORMAL,
            f"{LAYER_PLACE}.mlp_conv_config",
            "no such field",
        ),
        Case(
            made(on_codec(reasoning_config=REASONING)),
            made(on_codec()),
            f"{CODEC}.reasoning_config",
            "no such field",
        ),
    ],
    "parameters-in-bf16": [
        Case(made(dtype="F32"), NORMAL, "model.safetensors", "BF16 parameters, these are F32"),
        Case(made(dtype="F16"), NORMAL, "model.safetensors", "these are F16"),
    ],
    "mean-pooling": [
        Case(
            classifier(classifier_pooling="cls"),
            classifier(),
            "classifier_config.classifier_pooling",
            "pooling by cls; the engine has mean",
        )
    ],
    "penalty-window": [
        Case(
            made(on_generation(repetition_penalty=1.1)),
            made(PENALTY),
            f"{GENERATION}.suffix_repetition_length",
            "only if it has a length",
        )
    ],
    "known-samplers": [
        Case(
            made(on_generation(**{name: [1] if name == "banned_tokens" else 0.5})),
            NORMAL,
            f"{GENERATION}.{name}",
            "does not have this sampler",
        )
        for name in ("banned_tokens", "presence_penalty", "frequency_penalty")
    ],
    "sampling-ranges": [
        Case(
            made(on_generation(temperature=0.0)),
            made(on_generation(temperature=0.1)),
            f"{GENERATION}.temperature",
            "above 0",
        ),
        Case(
            made(on_generation(repetition_penalty=1.1, suffix_repetition_length=0)),
            made(on_generation(repetition_penalty=1.1, suffix_repetition_length=1)),
            f"{GENERATION}.suffix_repetition_length",
            "above 0",
        ),
        Case(
            made(on_generation(repetition_penalty=0.0, suffix_repetition_length=1)),
            made(PENALTY),
            f"{GENERATION}.repetition_penalty",
            "above 0",
        ),
    ],
    "drafts-without-penalty": [
        Case(
            made(PENALTY, files=DRAFTS),
            made(files=DRAFTS),
            f"{GENERATION}.repetition_penalty",
            "cannot follow drafts",
        )
    ],
    "speculator-shapes": [
        Case(made(files=SHAPELESS), made(files=DRAFTS), "speculator/shapes.json", "missing"),
        Case(
            made(model=SPECULATOR, files=("config.json",)),
            made(model=SPECULATOR, files=("config.json", "shapes.json")),
            "shapes.json",
            "missing",
        ),
    ],
    "draftable-mixers": [
        Case(
            made(on_mixer(MAMBA), files=DRAFTS),
            made(on_mixer(MAMBA)),
            MIXER,
            "cannot take back drafted tokens",
        )
    ],
    "draftable-convs": [
        Case(
            made(on_layer(mlp_conv_config=CONV), files=DRAFTS),
            made(on_layer(mlp_conv_config=CONV)),
            f"{LAYER_PLACE}.mlp_conv_config",
            "no trees of drafts",
        )
    ],
    "drafted-tables": [
        Case(
            made(tied, formats={TIED: HYBRID_TABLE}, files=DRAFTS),
            made(tied, formats={TIED: HYBRID_TABLE}),
            TIED,
            "without the rotation",
        )
    ],
    "own-prompts": [
        Case(made(on_codec()), NORMAL, f"{CODEC}.prompt_template", "not this template")
    ],
    "own-parser": [
        Case(
            made(on_codec(output_parser_regex="(?P<response>.*)")),
            made(on_codec()),
            f"{CODEC}.output_parser_regex",
            "by its own encoding",
        )
    ],
}
