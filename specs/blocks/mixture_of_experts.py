"""A mixture of experts: MLPs of one shape, of which a router picks a few for each token."""

from typing import Literal

from masu.specs.blocks.linear import LinearConfig
from masu.specs.blocks.plain_mlp import PlainMLPConfig
from masu.specs.blocks.routing import RoutingFunction
from masu.specs.strict import U32, Count, Strict
from masu.specs.tensors import Entries, Matrix, Vector, linear, under


class MixtureOfExpertsConfig(Strict):
    """Routed experts first, then the shared ones, stacked on the leading axis."""

    type: Literal["MixtureOfExpertsConfig"]
    expert_config: PlainMLPConfig
    router_config: LinearConfig
    routing_function: RoutingFunction
    num_routed_experts: Count
    num_active_routed_experts: Count
    router_has_biases: bool
    num_shared_experts: U32
    expert_hidden_dim: Count
    gate_config: LinearConfig | None

    @property
    def num_experts(self) -> int:
        return self.num_routed_experts + self.num_shared_experts

    def tensors(self, width: int, hidden: int) -> Entries:
        """`hidden`, the width of dense MLPs, plays no part here."""
        yield from self.tensors_of(width, expert_width=width)

    def tensors_of(self, width: int, expert_width: int) -> Entries:
        """Experts may read another vector than the router, of a width of its own."""
        experts, inner = self.num_experts, self.expert_hidden_dim
        routed, rows = self.num_routed_experts, self.expert_config.up_rows(inner)
        yield from linear("router", routed, width, biases=self.router_has_biases)
        yield from under("router", self.routing_function.tensors(routed))
        yield "experts.up_projection.weights", Matrix((experts, rows, expert_width))
        if self.expert_config.has_up_biases:
            yield "experts.up_projection.biases", Vector((experts, rows))
        yield "experts.down_projection.weights", Matrix((experts, expert_width, inner))
        if self.expert_config.has_down_biases:
            yield "experts.down_projection.biases", Vector((experts, expert_width))
        if self.gate_config is not None:
            yield from linear("gate", 1, width)
