"""An engine release: the dialect of its packages, and the rules that say how it takes them."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

from masu.specs.dialect import Dialect
from masu.specs.formats import WeightFormat
from masu.specs.model import ModelConfig
from masu.specs.tensors import Matrix

Effect: TypeAlias = Literal["refused", "differs"]
"""What becomes of a package that breaks a rule: it is refused, or it loads and computes
something else than the package says. A package that breaks none loads."""


@dataclass(frozen=True)
class Candidate:
    """A package as the rules see it: canonical config, formats by matrix path, model dtype.

    Attributes:
        files: what lies in the folder, with `/` between folder and file; empty for a plan.
    """

    config: ModelConfig
    formats: Mapping[str, WeightFormat]
    dtype: str
    files: Collection[str] = ()

    @cached_property
    def matrices(self) -> dict[str, Matrix]:
        """Every weight matrix of the config, by path."""
        entries = self.config.tensors()
        return {path: entry for path, entry in entries if isinstance(entry, Matrix)}


class Breach(NamedTuple):
    """One reason, at one place: a config path, a matrix path, or a file."""

    place: str
    reason: str


@dataclass(frozen=True)
class Rule:
    """One limit of an engine.

    Attributes:
        id: its name in reports; the same limit has the same id in every release.
        limit: what the engine takes, in one sentence.
        breaches: yields nothing for a package that keeps within the limit.
    """

    id: str
    limit: str
    breaches: Callable[[Candidate], Iterator[Breach]]
    effect: Effect = "refused"


@dataclass(frozen=True)
class Judgement:
    """One rule that a package breaks, and every place where it does for this reason."""

    rule: Rule
    reason: str
    places: tuple[str, ...]

    def __str__(self) -> str:
        others = len(self.places) - 1
        more = f" (and {others} more like it)" if others else ""
        return f"{self.places[0]}{more}: {self.reason}"


@dataclass(frozen=True)
class EngineProfile:
    """What masu knows about one engine release.

    Attributes:
        name: as users give it to `--engine`.
        rules: every limit, each with an id of its own.
        unknown: what the release may do besides, which nobody has found out.
        largest_group: of the group sizes that it has kernels for; larger groups of a quantised
            source are cut to it, which changes no value. None if there is no limit.
    """

    name: str
    dialect: Dialect
    rules: tuple[Rule, ...]
    unknown: tuple[str, ...] = field(default=())
    largest_group: int | None = None

    def judge(self, candidate: Candidate) -> list[Judgement]:
        """Every rule that the package breaks; empty if it loads and means the same.

        Places that share a reason (the same block in every layer) share a judgement.
        """
        return [judgement for rule in self.rules for judgement in _judgements(rule, candidate)]

    def refusals(
        self, config: ModelConfig, formats: Mapping[str, WeightFormat], dtype: str
    ) -> list[str]:
        """Why the engine would not load the package; empty if no rule objects."""
        judgements = self.judge(Candidate(config, formats, dtype))
        return [str(judgement) for judgement in judgements if judgement.rule.effect == "refused"]


def _judgements(rule: Rule, candidate: Candidate) -> Iterator[Judgement]:
    places: dict[str, list[str]] = defaultdict(list)
    for place, reason in rule.breaches(candidate):
        places[reason].append(place)
    for reason, found in places.items():
        yield Judgement(rule, reason, tuple(found))
