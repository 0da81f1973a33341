"""Qwen3.5 (3.6, 3.8) with its vision tower: the text model is converted, the tower is left out."""

from masu.converter.families import qwen3_5_text
from masu.converter.families.qwen3_5_text import HybridConfig
from masu.converter.family import Family
from masu.converter.table import READOUT, Table, Unused, prefixed

TOWER = Unused("the vision tower; the package is text only", left_out=True)
"""Under MLX's name for it, too."""


def with_tower(text: Table) -> Table:
    """The text model's table, for a checkpoint of the whole."""
    return {
        **prefixed(text, "model.", "model.language_model."),
        **prefixed(text, "", "language_model."),
        "lm_head.weight": READOUT,
        "mtp.*": text["mtp.*"],
        "*visual.*": TOWER,
        "vision_tower.*": TOWER,
    }


def weights(config: HybridConfig) -> Table:
    return with_tower(qwen3_5_text.weights(config))


FAMILY = Family(
    config=qwen3_5_text.Config,
    decoder=qwen3_5_text.build,
    weights=weights,
    tied=lambda config: config.tie_word_embeddings,
    text_config="text_config",
)
