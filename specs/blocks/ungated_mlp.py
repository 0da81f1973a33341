"""An MLP of two projections with an activation function between them."""

from typing import Literal

from masu.specs.blocks.activation import Activation
from masu.specs.blocks.linear import LinearConfig
from masu.specs.strict import Strict
from masu.specs.tensors import Entries, linear


class UngatedMLPConfig(Strict):
    """`down(activation(up(x)))`."""

    type: Literal["UngatedMLPConfig"]
    linear_config: LinearConfig
    activation: Activation
    has_up_biases: bool
    has_down_biases: bool

    def up_rows(self, hidden: int) -> int:
        """Rows of the projection to `hidden` channels."""
        return hidden

    def tensors(self, width: int, hidden: int) -> Entries:
        yield from linear("up_projection", hidden, width, biases=self.has_up_biases)
        yield from linear("down_projection", width, hidden, biases=self.has_down_biases)
