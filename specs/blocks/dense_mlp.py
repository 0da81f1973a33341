"""The gated MLP."""

from typing import Literal

from masu.specs.blocks.activation import Activation
from masu.specs.blocks.linear import LinearConfig
from masu.specs.strict import Strict
from masu.specs.tensors import Entries, linear

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

    def up_rows(self, hidden: int) -> int:
        """Rows of the projection to `hidden` channels."""
        return 2 * hidden

    def tensors(self, width: int, hidden: int) -> Entries:
        rows = self.up_rows(hidden)
        yield from linear("up_projection", rows, width, biases=self.has_up_biases)
        yield from linear("down_projection", width, hidden, biases=self.has_down_biases)
