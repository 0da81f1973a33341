"""The gated MLP, and a mixture of several."""

from typing import Annotated, Literal

from pydantic import Discriminator

from masu.specs.blocks.activation import Activation
from masu.specs.blocks.linear import LinearConfig
from masu.specs.strict import U32, Count, Strict
from masu.specs.tensors import Entries, Matrix, Vector, linear

Clipping = tuple[float | None, float | None]


class DenseMLPConfig(Strict):
    """`down(up(x) * activation(gate(x)))`; the fused projection has the up rows first."""

    type: Literal["DenseMLPConfig"]
    linear_config: LinearConfig
    activation: Activation
    has_up_biases: bool
    has_down_biases: bool
    gate_clipping: Clipping | None
    up_clipping: Clipping | None

    def tensors(self, width: int, hidden: int) -> Entries:
        yield from linear("up_projection", 2 * hidden, width, biases=self.has_up_biases)
        yield from linear("down_projection", width, hidden, biases=self.has_down_biases)


class SoftmaxRouting(Strict):
    """The largest router logits win; their softmax weighs the chosen experts."""

    type: Literal["SoftmaxRouting"]


RoutingFunction = SoftmaxRouting


class MixtureOfExpertsConfig(Strict):
    """Routed experts first, then the shared ones, stacked on the leading axis."""

    type: Literal["MixtureOfExpertsConfig"]
    expert_config: DenseMLPConfig
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
        experts, inner = self.num_experts, self.expert_hidden_dim
        routed = self.num_routed_experts
        yield from linear("router", routed, width, biases=self.router_has_biases)
        yield "experts.up_projection.weights", Matrix((experts, 2 * inner, width))
        if self.expert_config.has_up_biases:
            yield "experts.up_projection.biases", Vector((experts, 2 * inner))
        yield "experts.down_projection.weights", Matrix((experts, width, inner))
        if self.expert_config.has_down_biases:
            yield "experts.down_projection.biases", Vector((experts, width))
        if self.gate_config is not None:
            yield from linear("gate", 1, width)


MLPConfig = Annotated[DenseMLPConfig | MixtureOfExpertsConfig, Discriminator("type")]
