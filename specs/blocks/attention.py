"""Softmax attention with grouped heads."""

from typing import Literal, Self

from pydantic import model_validator

from masu.specs.blocks.grouped_heads import check_groups
from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.strict import Count, Strict
from masu.specs.tensors import Entries, Vector, linear, under


class AttentionConfig(Strict):
    """`scale` null means `head_dim ** -0.5`; a layer that shares a cache has only Q rows."""

    type: Literal["AttentionConfig"]
    qkvg_projection_config: LinearConfig
    out_projection_config: LinearConfig
    query_norm_config: NormalizationConfig | None
    key_norm_config: NormalizationConfig | None
    num_heads: Count
    num_groups: Count
    head_dim: Count
    is_causal: bool
    scale: float | None
    sliding_window_size: Count | None
    logit_soft_cap: float | None
    has_sinks: bool
    has_qkvg_biases: bool
    has_out_biases: bool
    has_gate: bool
    normalize_values: bool
    is_kv_sharing: bool

    @model_validator(mode="after")
    def _heads_share_groups_evenly(self) -> Self:
        check_groups(self.num_heads, self.num_groups)
        return self

    @property
    def query_dim(self) -> int:
        """Rows of the queries, and of the gate."""
        return self.num_heads * self.head_dim

    @property
    def key_dim(self) -> int:
        """Rows of the keys, and of the values; none where the cache is shared."""
        return 0 if self.is_kv_sharing else self.num_groups * self.head_dim

    @property
    def row_blocks(self) -> tuple[int, int, int, int]:
        """Rows of Q, K, V and G in the fused projection, in this order."""
        return self.query_dim, self.key_dim, self.key_dim, self.query_dim * self.has_gate

    def tensors(self, width: int) -> Entries:
        rows = sum(self.row_blocks)
        yield from linear("qkvg_projection", rows, width, biases=self.has_qkvg_biases)
        yield from linear("out_projection", width, self.query_dim, biases=self.has_out_biases)
        if self.query_norm_config is not None:
            yield from under("query_norm", self.query_norm_config.tensors(self.head_dim))
        if self.key_norm_config is not None and not self.is_kv_sharing:
            yield from under("key_norm", self.key_norm_config.tensors(self.head_dim))
        if self.has_sinks:
            yield "sinks", Vector((self.num_heads,))
