"""Attention whose queries grow with the position, so that long contexts stay sharp (Llama 4)."""

from typing import Literal

from masu.specs.blocks.attention import AttentionConfig
from masu.specs.strict import Count, Strict
from masu.specs.tensors import Entries


class PositionScaledAttentionConfig(Strict):
    """Queries, after RoPE, times `1 + beta * log(1 + floor(position / original_context_length))`.

    Within the original context that is 1. Source: `get_llama_4_attn_scale` in transformers'
    models/ministral3/modeling_ministral3.py.
    """

    type: Literal["PositionScaledAttentionConfig"]
    attention_config: AttentionConfig
    beta: float
    original_context_length: Count

    def tensors(self, width: int) -> Entries:
        """Those of plain attention."""
        return self.attention_config.tensors(width)
