"""Where in the sequence a step stands, and what a layer needs besides its own state."""

from typing import Any, NamedTuple

from masu.runtime.backend import Array


class Context(NamedTuple):
    """One step: `tokens` rows, of which those past `length - position` are padding.

    Attributes:
        position: int32, the place of the first row in the sequence.
        length: int32, the length of the sequence with this step's rows.
        rotation: wide cosines and sines `[tokens, pairs]`; None for a layer without RoPE.
        shared: the updated state of the layer whose cache this one reads; None for its own.
        told: the layer's slice of per-layer embeddings `[tokens, ple_dim]`, if the model has them.
    """

    position: Array
    length: Array
    rotation: tuple[Array, Array] | None
    shared: Any
    told: Array | None = None

    @property
    def filled(self) -> Array:
        """How many rows are not padding."""
        return self.length - self.position
