"""A gated short convolution whose projections have biases, which the engine's has not."""

from typing import Literal

from masu.specs.blocks.short_conv import ShortConvConfig
from masu.specs.strict import Strict
from masu.specs.tensors import Entries, Vector


class BiasedShortConvConfig(Strict):
    """Whether the convolution itself has biases, `short_conv_config` says."""

    type: Literal["BiasedShortConvConfig"]
    short_conv_config: ShortConvConfig

    def tensors(self, width: int) -> Entries:
        yield from self.short_conv_config.tensors(width)
        yield "in_projection.biases", Vector((3 * width,))
        yield "out_projection.biases", Vector((width,))
