"""A way to quantise checkpoints: how config.json names it, and what its tensors mean."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from masu.converter.quantised.module import Presented, Tensors


class Settings(BaseModel):
    """The keys of a quantisation config that decide what its tensors mean.

    Values that would mean something else are excluded by `Literal` types: together they are the
    closed list of what is converted.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    INERT: ClassVar[frozenset[str]] = frozenset()
    """Keys that say how the codes were found or how another program runs them."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """One file of `converter/quantised`.

    Attributes:
        name: the `quant_method` of its configs, or what stands in its place.
        settings: the keys it reads.
        present: the checkpoint's tensors as its family's table expects them, codes and parameters
            in one matrix.
        whole_norms: families (`model_type`) whose norms store scale - 1 everywhere but here.
        refused: families whose weights its writer changes in a way that is not undone, and how.
    """

    name: str
    settings: type[Settings]
    present: Callable[[Any, Tensors], Presented]
    whole_norms: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)

    def read(self, config: Mapping[str, Any]) -> Settings:
        """The settings of a quantisation config; pydantic's ValidationError if it is another."""
        wanted = {k: v for k, v in config.items() if k not in self.settings.INERT}
        return self.settings.model_validate(_tuples(wanted))


def _tuples(value: Any) -> Any:
    """JSON arrays as tuples, which frozen strict models expect."""
    if isinstance(value, list):
        return tuple(_tuples(item) for item in value)
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return value
