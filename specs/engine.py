"""An engine release: the dialect of its packages, and the rules that say what it cannot load."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from masu.specs.dialect import Dialect
from masu.specs.formats import WeightFormat
from masu.specs.model import ModelConfig
from masu.specs.tensors import Matrix


@dataclass(frozen=True)
class Candidate:
    """A package as the rules see it: canonical config, formats by matrix path, model dtype."""

    config: ModelConfig
    formats: Mapping[str, WeightFormat]
    dtype: str

    @property
    def matrices(self) -> dict[str, Matrix]:
        """Every weight matrix of the config, by path."""
        entries = self.config.tensors()
        return {path: entry for path, entry in entries if isinstance(entry, Matrix)}


class Refusal(NamedTuple):
    """One reason, at one place: a config path, or a matrix path."""

    place: str
    reason: str


Rule: TypeAlias = Callable[[Candidate], Iterator[Refusal]]
"""One limit of an engine. It yields nothing for a package that keeps within the limit."""


@dataclass(frozen=True)
class EngineProfile:
    """What masu knows about one engine release.

    Attributes:
        name: as users give it to `--engine`.
        rules: every limit, each its own function.
    """

    name: str
    dialect: Dialect
    rules: tuple[Rule, ...]

    def refusals(
        self, config: ModelConfig, formats: Mapping[str, WeightFormat], dtype: str
    ) -> list[str]:
        """Why the engine would not load the package; empty if no rule objects.

        Places that share a reason (the same block in every layer) share a line.
        """
        candidate = Candidate(config, formats, dtype)
        places: dict[str, list[str]] = defaultdict(list)
        for rule in self.rules:
            for place, reason in rule(candidate):
                places[reason].append(place)
        return [_line(found, reason) for reason, found in places.items()]


def _line(places: list[str], reason: str) -> str:
    others = len(places) - 1
    more = f" (and {others} more like it)" if others else ""
    return f"{places[0]}{more}: {reason}"
