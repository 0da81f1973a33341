"""Mistral Small 3.1 and Ministral 3 with their vision tower: the text model is converted."""

from typing import Literal

from masu.converter.config import SiluConfig, Size
from masu.converter.families import gemma3, llama, ministral3, mistral
from masu.converter.family import Family
from masu.converter.table import Table, prefixed
from masu.specs.blocks.decoder import DecoderConfig


class Config(SiluConfig):
    """The keys of both text models; the window, whose defaults differ, has to be named."""

    model_type: Literal["mistral", "ministral3"] = "mistral"
    head_dim: Size | None = None
    sliding_window: int | None


def build(config: Config) -> DecoderConfig:
    given = config.model_dump(exclude={"model_type"}, exclude_unset=True)
    if config.model_type == "mistral":
        return mistral.build(mistral.Config(**given))
    return ministral3.build(ministral3.Config(**given))


WEIGHTS: Table = {
    **prefixed(llama.WEIGHTS, "model.", "model.language_model."),
    **prefixed(llama.WEIGHTS, "", "language_model."),
    "lm_head.weight": llama.WEIGHTS["lm_head.weight"],
    "*vision_tower.*": gemma3.TOWER,
    "*multi_modal_projector.*": gemma3.TOWER,
}

FAMILY = Family(
    config=Config,
    decoder=build,
    weights=lambda config: WEIGHTS,
    tied=lambda config: config.tie_word_embeddings,
    tiny={
        "model_type": "mistral3",
        "tie_word_embeddings": False,
        "text_config": ministral3.FAMILY.tiny,
        "vision_config": {
            "model_type": "pixtral",
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_attention_heads": 2,
            "num_hidden_layers": 1,
            "head_dim": 16,
            "image_size": 32,
            "patch_size": 8,
        },
    },
    variants=({"text_config": mistral.FAMILY.tiny, "tie_word_embeddings": True},),
    text_config="text_config",
)
