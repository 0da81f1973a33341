"""A dense MLP and a mixture of experts side by side, each with norms of its own (Gemma 4)."""

from typing import Literal

from masu.specs.blocks.mixture_of_experts import MixtureOfExpertsConfig
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.blocks.plain_mlp import PlainMLPConfig
from masu.specs.strict import Strict
from masu.specs.tensors import Entries, Vector, under


class DenseAndMixtureConfig(Strict):
    """`post_dense_norm(dense(d * x)) + post_mixture_norm(mixture(m * x))`, with vectors d and m.

    The router reads `r * x`. So the norm before this block, which has no scale, serves all three.
    """

    type: Literal["DenseAndMixtureConfig"]
    dense_config: PlainMLPConfig
    post_dense_norm_config: NormalizationConfig
    mixture_config: MixtureOfExpertsConfig
    post_mixture_norm_config: NormalizationConfig

    def tensors(self, width: int, hidden: int) -> Entries:
        """`hidden` is the width of the dense MLP."""
        for name in ("dense_scales", "mixture_scales", "router_scales"):
            yield name, Vector((width,), "F32")
        yield from under("dense", self.dense_config.tensors(width, hidden))
        yield from under("post_dense_norm", self.post_dense_norm_config.tensors(width))
        yield from under("mixture", self.mixture_config.tensors(width, hidden))
        yield from under("post_mixture_norm", self.post_mixture_norm_config.tensors(width))
