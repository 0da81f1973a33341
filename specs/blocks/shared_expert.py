"""A mixture of experts beside an MLP that every token passes, of a width of its own."""

from typing import Literal

from masu.specs.blocks.latent_mixture import RoutedMLPConfig
from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.plain_mlp import PlainMLPConfig
from masu.specs.strict import Count, Strict
from masu.specs.tensors import Entries, linear, under


class SharedExpertConfig(Strict):
    """`mixture(x) + shared(x)`, the second times `sigmoid(gate(x))` where there is a gate.

    The engine's mixture has shared experts of the routed ones' width only.
    """

    type: Literal["SharedExpertConfig"]
    mixture_config: RoutedMLPConfig
    shared_config: PlainMLPConfig
    shared_hidden_dim: Count
    gate_config: LinearConfig | None

    def tensors(self, width: int, hidden: int) -> Entries:
        """`hidden`, the width of dense MLPs, plays no part here."""
        yield from under("mixture", self.mixture_config.tensors(width, hidden))
        yield from under("shared", self.shared_config.tensors(width, self.shared_hidden_dim))
        if self.gate_config is not None:
            yield from linear("gate", 1, width)
