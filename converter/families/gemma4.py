"""Gemma 4 with its towers: the text model is converted, those for images and audio are left out."""

from masu.converter.families import gemma4_text
from masu.converter.family import Family
from masu.converter.table import Table, Unused, prefixed

VISION = Unused("the vision tower; the package is text only", left_out=True)
AUDIO = Unused("the audio tower; the package is text only", left_out=True)


def weights(config: gemma4_text.Config) -> Table:
    """Text-only checkpoints of this type have the plain names."""
    text = gemma4_text.weights(config)
    return {
        **text,
        **prefixed(text, "model.", "model.language_model."),
        **prefixed(text, "", "language_model."),
        "lm_head.weight": text["lm_head.weight"],
        "*vision_tower.*": VISION,
        "*embed_vision.*": VISION,
        "*audio_tower.*": AUDIO,
        "*embed_audio.*": AUDIO,
    }


FAMILY = Family(
    config=gemma4_text.Config,
    decoder=gemma4_text.build,
    weights=weights,
    tied=lambda config: config.tie_word_embeddings,
    text_config="text_config",
)
