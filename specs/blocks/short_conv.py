"""A gated short convolution (LFM2)."""

from typing import Literal

from masu.specs.blocks.conv import SeparableCausalConvConfig
from masu.specs.blocks.linear import LinearConfig
from masu.specs.strict import Count, Strict
from masu.specs.tensors import Entries, linear, under


class ShortConvConfig(Strict):
    """The input projection's rows are B (gate before), C (gate after) and x."""

    type: Literal["ShortConvConfig"]
    in_projection_config: LinearConfig
    conv_config: SeparableCausalConvConfig
    out_projection_config: LinearConfig
    kernel_size: Count

    def tensors(self, width: int) -> Entries:
        yield from linear("in_projection", 3 * width, width)
        yield from under("conv", self.conv_config.tensors(width, self.kernel_size))
        yield from linear("out_projection", width, width)
