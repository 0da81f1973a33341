"""Mamba-2 in full (arXiv:2405.21060), which the engine has only in the Llamba variant."""

from typing import Literal, Self

from pydantic import model_validator

from masu.specs.blocks.activation import Activation
from masu.specs.blocks.conv import SeparableCausalConvConfig
from masu.specs.blocks.grouped_heads import check_groups
from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.strict import Count, Strict
from masu.specs.tensors import Entries, Vector, linear, under


class GeneralMamba2Config(Strict):
    """A decay `exp(-exp(a_log) dt)`, a bias on the step `dt`, an input scaled by it, a norm.

    The gate's SiLU multiplies the output before the norm, or after it where `norm_before_gate`.
    The norm runs over each of `num_groups` equal parts; without one there is only the gate.
    A null limit of the step leaves that side open.
    """

    type: Literal["GeneralMamba2Config"]
    in_projection_config: LinearConfig
    out_projection_config: LinearConfig
    conv_config: SeparableCausalConvConfig
    norm_config: NormalizationConfig | None
    norm_before_gate: bool
    activation: Activation
    kernel_size: Count
    num_heads: Count
    num_groups: Count
    head_dim: Count
    state_dim: Count
    step_limits: tuple[float | None, float | None]
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
        """Rows of xBC, z (gate) and dt in the fused input projection, as in the engine's own."""
        return self.conv_dim, self.inner_dim, self.num_heads

    def tensors(self, width: int) -> Entries:
        rows = sum(self.row_blocks)
        yield from linear("in_projection", rows, width, biases=self.has_in_biases)
        yield from under("conv", self.conv_config.tensors(self.conv_dim, self.kernel_size))
        yield from linear("out_projection", width, self.inner_dim, biases=self.has_out_biases)
        if self.norm_config is not None:
            yield from under("norm", self.norm_config.tensors(self.inner_dim))
        for name in ("skip_connection_weight", "dt_bias", "a_log"):
            yield name, Vector((self.num_heads,), "F32")
