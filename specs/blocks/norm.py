"""Root-mean-square and layer normalisation."""

from typing import Literal, Self

from pydantic import model_validator

from masu.specs.strict import Strict
from masu.specs.tensors import Entries, Vector


class NormalizationConfig(Strict):
    """A norm over the last axis; `scale_offset` is added to the stored scale before use."""

    epsilon: float
    scale_offset: float | None
    upcast_mode: Literal["only_normalization", "full_layer"]
    subtract_mean: bool
    has_scale: bool
    has_biases: bool

    @model_validator(mode="after")
    def _offset_needs_a_scale(self) -> Self:
        if self.scale_offset is not None and not self.has_scale:
            raise ValueError("scale_offset must be null when has_scale is false")
        return self

    def tensors(self, width: int) -> Entries:
        """Scales and biases are float32 whatever the model's dtype."""
        if self.has_scale:
            yield "scales", Vector((width,), "F32")
        if self.has_biases:
            yield "biases", Vector((width,), "F32")
