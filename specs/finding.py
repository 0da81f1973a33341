"""What a check has to say: one thing, at one place."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal[
    "schema", "container", "tensors", "engine", "differs", "integrity", "signature", "tokenizer",
    "template", "note",
]  # fmt: skip
Severity: TypeAlias = Literal["problem", "warning", "note"]

_MILDER: dict[Kind, Severity] = {"differs": "warning", "note": "note"}


@dataclass(frozen=True)
class Finding:
    """One problem of a package, or a remark on it.

    Attributes:
        kind: which kind of check found it; `differs` says that an engine loads the package and
            computes something else, `note` what could not be checked. All others are problems.
        where: the file, or the engine release.
        message: the place in the file, what was expected there, and what was found.
        rule: the id of the engine's rule.
    """

    kind: Kind
    where: str
    message: str
    rule: str | None = None

    @property
    def severity(self) -> Severity:
        return _MILDER.get(self.kind, "problem")

    @property
    def is_problem(self) -> bool:
        return self.severity == "problem"

    def to_json(self) -> dict[str, Any]:
        """The finding as JSON documents hold it."""
        return {
            "severity": self.severity, "kind": self.kind, "where": self.where,
            "message": self.message, "rule": self.rule,
        }  # fmt: skip
