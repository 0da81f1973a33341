"""What a model family is: its config, its place in the engine's vocabulary, its weight table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic

from masu.converter.config import ConfigT
from masu.converter.table import Table
from masu.specs.model import NetworkConfig


@dataclass(frozen=True, kw_only=True)
class Family(Generic[ConfigT]):
    """One file of `converter/families`, named after Hugging Face's `model_type`.

    Attributes:
        config: the keys of config.json that the family reads.
        decoder: the engine's network that a config describes, a decoder or a classifier.
        weights: the weight table; engine names are relative to the network's root.
        tied: whether the readout is the token table, by the config.
        tiny: a small config.json with every optional feature on, for the generated tests.
        variants: overrides of `tiny`, for further values of options that change the maths.
        text_config: key of a multimodal config that holds the language model's own, if any.
    """

    config: type[ConfigT]
    decoder: Callable[[ConfigT], NetworkConfig]
    weights: Callable[[ConfigT], Table]
    tied: Callable[[ConfigT], bool]
    tiny: Mapping[str, Any] = field(default_factory=dict)
    variants: tuple[Mapping[str, Any], ...] = ()
    text_config: str | None = None
