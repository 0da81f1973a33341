"""Mamba-2 in the Llamba variant: no A and no step bias (the decay is exp(-dt))."""

from typing import Literal, Self

from pydantic import model_validator

from masu.specs.blocks.activation import Activation
from masu.specs.blocks.conv import SeparableCausalConvConfig
from masu.specs.blocks.grouped_heads import check_groups
from masu.specs.blocks.linear import LinearConfig
from masu.specs.strict import Count, Strict
from masu.specs.tensors import Entries, Vector, linear, under


class Mamba2Config(Strict):
    type: Literal["Mamba2Config"]
    in_projection_config: LinearConfig
    out_projection_config: LinearConfig
    conv_config: SeparableCausalConvConfig
    activation: Activation
    kernel_size: Count
    num_heads: Count
    num_groups: Count
    head_dim: Count
    state_dim: Count
    has_in_biases: bool
    has_out_biases: bool

    @model_validator(mode="after")
    def _heads_share_groups_evenly(self) -> Self:
        check_groups(self.num_heads, self.num_groups)
        return self

    @property
    def inner_dim(self) -> int:
        return self.num_heads * self.head_dim

    @property
    def conv_dim(self) -> int:
        """Channels that pass the convolution: x, B and C."""
        return self.inner_dim + 2 * self.num_groups * self.state_dim

    @property
    def row_blocks(self) -> tuple[int, int, int]:
        """Rows of xBC, z (gate) and dt in the fused input projection."""
        return self.conv_dim, self.inner_dim, self.num_heads

    def tensors(self, width: int) -> Entries:
        rows = sum(self.row_blocks)
        yield from linear("in_projection", rows, width, biases=self.has_in_biases)
        yield from under("conv", self.conv_config.tensors(self.conv_dim, self.kernel_size))
        yield from linear("out_projection", width, self.inner_dim, biases=self.has_out_biases)
        yield "skip_connection_weight", Vector((self.num_heads,), "F32")
        yield "gate_bias", Vector((self.inner_dim,), "F32")
