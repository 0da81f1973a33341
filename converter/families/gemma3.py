"""Gemma 3 with its vision tower: the text model is converted, the tower is left out by name."""

from masu.converter.families import gemma3_text
from masu.converter.family import Family
from masu.converter.table import Table, Unused, prefixed

TOWER = Unused("the vision tower; the package is text only", left_out=True)

WEIGHTS: Table = {
    **prefixed(gemma3_text.WEIGHTS, "model.", "model.language_model."),
    **prefixed(gemma3_text.WEIGHTS, "", "language_model."),
    "lm_head.weight": gemma3_text.WEIGHTS["lm_head.weight"],
    "*vision_tower.*": TOWER,
    "*multi_modal_projector.*": TOWER,
}

FAMILY = Family(
    config=gemma3_text.Config,
    decoder=gemma3_text.build,
    weights=lambda config: WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    text_config="text_config",
)
