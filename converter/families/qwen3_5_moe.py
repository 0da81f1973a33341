"""Qwen3.5 (3.6) with mixtures of experts and a vision tower, which is left out."""

from masu.converter.families import qwen3_5_moe_text
from masu.converter.families.qwen3_5 import with_tower
from masu.converter.family import Family

FAMILY = Family(
    config=qwen3_5_moe_text.Config,
    decoder=qwen3_5_moe_text.build,
    weights=lambda config: with_tower(qwen3_5_moe_text.weights(config)),
    tied=lambda config: config.tie_word_embeddings,
    text_config="text_config",
)
