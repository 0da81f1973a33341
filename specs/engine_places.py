"""Where in a package an engine's rule looks: objects by type, layers, formats, generation."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from masu.specs.blocks.layer import TransformerLayerConfig
from masu.specs.engine import Candidate
from masu.specs.formats.base import Format
from masu.specs.formats.hybrid import HybridSpec
from masu.specs.generation import GenerationConfig
from masu.specs.json_objects import objects
from masu.specs.model import ClassifierModelConfig, LanguageModelConfig


@dataclass(frozen=True)
class Layer:
    """A layer of the engine's own kind: its place in config.json, its path among the tensors."""

    place: str
    path: str
    index: int
    config: TransformerLayerConfig
    width: int


def of_type(candidate: Candidate, *tags: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of config.json with one of these `type` tags, by its place."""
    for place, value in objects(candidate.config.model_dump()):
        if value.get("type") in tags:
            yield place, value


def layers(candidate: Candidate) -> Iterator[Layer]:
    """Every layer that the engine has a word for; others are refused by their type."""
    config = candidate.config
    if isinstance(config, LanguageModelConfig | ClassifierModelConfig):
        name, stack = f"{config.ROOT}_config.transformer_config", config.network.transformer_config
        found, width, path = stack.layer_configs, stack.model_dim, f"{config.ROOT}.transformer"
    else:
        draft = config.speculator_config.draft_config
        name, path = "speculator_config.draft_config", "speculator.draft_model"
        found, width = draft.layer_configs, draft.model_dim
    for index, layer in enumerate(found):
        if isinstance(layer, TransformerLayerConfig):
            place = f"{name}.layer_configs[{index}]"
            yield Layer(place, f"{path}.layers.{index}", index, layer, width)


def parts(candidate: Candidate) -> Iterator[tuple[str, Format]]:
    """Every format, and those that hybrids are made of, by the path of their arrays."""
    for path, format_ in candidate.formats.items():
        yield path, format_
        if isinstance(format_, HybridSpec):
            yield from ((f"{path}.{name}", part) for name, part in format_.parts.items())


def hybrids(candidate: Candidate) -> Iterator[tuple[str, HybridSpec]]:
    """Every matrix kept as a hybrid."""
    for path, format_ in candidate.formats.items():
        if isinstance(format_, HybridSpec):
            yield path, format_


def generation(candidate: Candidate) -> GenerationConfig | None:
    """The defaults for sampling; None for a model that generates nothing."""
    config = candidate.config
    return config.generation_config if isinstance(config, LanguageModelConfig) else None
