"""How router logits become a choice of experts and the weights of their outputs.

The engine has `SoftmaxRouting` only; the others are for models that were trained otherwise.
"""

from typing import Annotated, Literal, Self

from pydantic import Discriminator, model_validator

from masu.specs.strict import Count, Strict
from masu.specs.tensors import Entries, Vector


class SoftmaxRouting(Strict):
    """The largest router logits win; their softmax weighs the chosen experts.

    The same as a softmax over all experts whose chosen shares are divided by their sum.
    """

    type: Literal["SoftmaxRouting"]

    def tensors(self, experts: int) -> Entries:
        yield from ()


class ScaledSoftmaxRouting(Strict):
    """As `SoftmaxRouting`; then the weight of each chosen expert is multiplied by a scale of it."""

    type: Literal["ScaledSoftmaxRouting"]

    def tensors(self, experts: int) -> Entries:
        yield "expert_scales", Vector((experts,), "F32")


class SoftmaxShareRouting(Strict):
    """The chosen experts keep their shares of a softmax over all: weights that sum to below 1."""

    type: Literal["SoftmaxShareRouting"]

    def tensors(self, experts: int) -> Entries:
        yield from ()


class SigmoidRouting(Strict):
    """Each expert's score is the sigmoid of its logit (DeepSeek-V3, arXiv:2412.19437, eq. 13-16).

    Experts are chosen by score plus correction, and weighed by score alone: divided by
    `sum + epsilon` if `is_normalized`, then times `scaling_factor`. With several groups only the
    best `num_active_groups` take part; a group is as good as its two best experts together.
    """

    type: Literal["SigmoidRouting"]
    has_correction_biases: bool
    is_normalized: bool
    epsilon: float
    scaling_factor: float
    num_groups: Count
    num_active_groups: Count

    @model_validator(mode="after")
    def _active_groups_exist(self) -> Self:
        if self.num_active_groups > self.num_groups:
            raise ValueError("num_active_groups must not be above num_groups")
        return self

    def tensors(self, experts: int) -> Entries:
        """Corrections are float32 whatever the model's dtype: they decide between near ties."""
        if self.has_correction_biases:
            yield "correction_biases", Vector((experts,), "F32")


class SparseMixerRouting(Strict):
    """Two experts, one after the other, each with a softmax of its own (arXiv:2409.12136).

    The best logit wins, weighed by a softmax over the experts whose logit is within
    `2 * jitter` of it, relative to the larger of their sizes; then again without the winner.
    """

    type: Literal["SparseMixerRouting"]
    jitter: float

    def tensors(self, experts: int) -> Entries:
        yield from ()


RoutingFunction = Annotated[
    SoftmaxRouting
    | ScaledSoftmaxRouting
    | SoftmaxShareRouting
    | SigmoidRouting
    | SparseMixerRouting,
    Discriminator("type"),
]
