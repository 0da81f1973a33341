"""Causal depthwise convolutions: inside mixers, and around a mixer or an MLP."""

from masu.specs.blocks.linear import LinearConfig
from masu.specs.dtypes import DType
from masu.specs.strict import Count, Strict
from masu.specs.tensors import Entries, Vector, linear, under


class SeparableCausalConvConfig(Strict):
    """One filter per channel; tap 0 is the oldest."""

    has_biases: bool

    def tensors(self, channels: int, taps: int, dtype: DType | None = "F32") -> Entries:
        yield "weights", Vector((channels, taps), dtype)
        if self.has_biases:
            yield "biases", Vector((channels,), dtype)


class TransformerLayerConvConfig(Strict):
    """Convolutions before and after a sub-layer, their taps shifted by a projection of its input.

    Unlike those inside mixers, these filters have the model's dtype.
    """

    conv_config: SeparableCausalConvConfig
    kernel_projection_config: LinearConfig
    conv_kernel_size: Count
    conv_group_size: Count

    def tensors(self, width: int) -> Entries:
        taps = self.conv_kernel_size
        yield from under("pre_conv", self.conv_config.tensors(width, taps, None))
        yield from under("post_conv", self.conv_config.tensors(width, taps, None))
        yield from linear("kernel_projection", 2 * taps * (width // self.conv_group_size), width)
