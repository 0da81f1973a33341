"""Where two models part: the block, by how much, and what feeds it."""

from dataclasses import dataclass
from typing import Any

SHOWN = 6
"""Tensors and config keys that a message names."""


@dataclass(frozen=True)
class Divergence:
    """One block that is not what it should be.

    Attributes:
        error: by how much, in the unit of `bound`.
        tensors: those that feed it, or only those of them that are known to be others.
        config: keys of its config that are known to be others, with both values.
    """

    block: str
    error: float
    bound: float
    tensors: tuple[str, ...]
    config: tuple[str, ...] = ()

    def describe(self) -> str:
        said = f"{self.block} diverges by {self.error:.1e} (bound {self.bound:.0e})"
        if self.config:
            said += f"; {_listed(self.config)}"
        return said + (f"; fed by {_listed(self.tensors)}" if self.tensors else "")

    def to_json(self) -> dict[str, Any]:
        error = self.error if self.error < float("inf") else None  # JSON has no infinity
        return {
            "block": self.block, "error": error, "bound": self.bound,
            "tensors": list(self.tensors), "config": list(self.config),
        }  # fmt: skip


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
