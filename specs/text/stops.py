"""The tokens that end a reply, and who said so."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from masu.specs.errors import TextError

CONFIG, GENERATION, TOKENIZER = "config.json", "generation_config.json", "the tokenizer's eos_token"


@dataclass(frozen=True)
class StopSet:
    """Stop ids with their origins, in rising order of ids.

    Attributes:
        origins: for each id, the files that name it.
    """

    origins: Mapping[int, tuple[str, ...]]

    @classmethod
    def collect(
        cls,
        config: Mapping[str, Any],
        generation_config: Mapping[str, Any] | None = None,
        tokenizer_eos: int | None = None,
    ) -> "StopSet":
        """From the `eos_token_id` of both files and the id of the tokenizer's own end token.

        Raises:
            TextError: an `eos_token_id` is neither null, an id, nor a list of ids.
        """
        problems: list[str] = []
        sources = {
            CONFIG: config.get("eos_token_id"),
            GENERATION: (generation_config or {}).get("eos_token_id"),
            TOKENIZER: tokenizer_eos,
        }
        origins: dict[int, tuple[str, ...]] = {}
        for where, value in sources.items():
            for token in _ids(value, where, problems):
                origins[token] = (*origins.get(token, ()), where)
        if problems:
            raise TextError("eos_token_id: expected token ids", problems=problems)
        return cls(dict(sorted(origins.items())))

    @property
    def ids(self) -> tuple[int, ...]:
        """All of them."""
        return tuple(self.origins)

    @property
    def package_ids(self) -> tuple[int, ...]:
        """Those that lalamo 0.17.0 writes as `stop_token_ids`: the union of the two files."""
        return tuple(i for i, places in self.origins.items() if {CONFIG, GENERATION} & {*places})


def _ids(value: Any, where: str, problems: list[str]) -> Iterable[int]:
    tokens = value if isinstance(value, list | tuple) else [] if value is None else [value]
    for token in tokens:
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < 2**64:
            problems.append(f"{where}: {token!r}")
        else:
            yield token
