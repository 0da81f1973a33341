"""Gated DeltaNet: a linear-attention mixer with a delta-rule state (arXiv:2412.06464)."""

from typing import Literal, Self

from pydantic import model_validator

from masu.specs.blocks.conv import SeparableCausalConvConfig
from masu.specs.blocks.grouped_heads import check_groups
from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.strict import Count, Strict
from masu.specs.tensors import Entries, Vector, linear, under


class DeltaNetConfig(Strict):
    """`num_heads` value heads read `num_groups` key heads, each shared by equally many."""

    type: Literal["DeltaNetConfig"]
    in_proj_config: LinearConfig
    conv_config: SeparableCausalConvConfig
    out_proj_config: LinearConfig
    norm_config: NormalizationConfig
    num_heads: Count
    num_groups: Count
    head_dim: Count
    value_head_dim: Count
    kernel_size: Count

    @model_validator(mode="after")
    def _heads_share_groups_evenly(self) -> Self:
        check_groups(self.num_heads, self.num_groups)
        return self

    @property
    def key_dim(self) -> int:
        return self.num_groups * self.head_dim

    @property
    def value_dim(self) -> int:
        return self.num_heads * self.value_head_dim

    @property
    def conv_dim(self) -> int:
        """Channels that pass the convolution: q, k and v."""
        return 2 * self.key_dim + self.value_dim

    @property
    def row_blocks(self) -> tuple[int, int, int, int, int, int]:
        """Rows of q, k, v, z (gate), b (beta) and a (decay) in the fused input projection."""
        heads = self.num_heads
        return self.key_dim, self.key_dim, self.value_dim, self.value_dim, heads, heads

    def tensors(self, width: int) -> Entries:
        yield from linear("in_proj", sum(self.row_blocks), width)
        yield from under("conv", self.conv_config.tensors(self.conv_dim, self.kernel_size))
        yield from linear("out_proj", width, self.value_dim)
        yield from under("norm", self.norm_config.tensors(self.value_head_dim))
        yield "dt_bias", Vector((self.num_heads,), "F32")
        yield "a_log", Vector((self.num_heads,), "F32")
