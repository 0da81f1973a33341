"""Attention whose query and key norms have a scale for every channel of every head."""

from typing import Literal, Self

from pydantic import model_validator

from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.strict import Strict
from masu.specs.tensors import Entries, under


class FullWidthNormAttentionConfig(Strict):
    """The norms precede RoPE. `norm_span` says what one mean is taken over: the channels of all
    heads together (OLMo 2, arXiv:2501.00656), or those of each head (StableLM 2)."""

    type: Literal["FullWidthNormAttentionConfig"]
    attention_config: AttentionConfig
    norm_span: Literal["all_heads", "each_head"]
    query_norm_config: NormalizationConfig
    key_norm_config: NormalizationConfig

    @model_validator(mode="after")
    def _one_place_for_norms(self) -> Self:
        inner = self.attention_config
        if inner.query_norm_config is not None or inner.key_norm_config is not None:
            raise ValueError("attention_config must have no norms of single heads")
        if inner.is_kv_sharing:
            raise ValueError("attention_config.is_kv_sharing must be false")
        return self

    def tensors(self, width: int) -> Entries:
        """Under the names of plain attention; scales are `[num_heads * head_dim]`, head by head."""
        inner = self.attention_config
        yield from inner.tensors(width)
        yield from under("query_norm", self.query_norm_config.tensors(inner.query_dim))
        yield from under("key_norm", self.key_norm_config.tensors(inner.key_dim))
