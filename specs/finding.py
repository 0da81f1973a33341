"""What a check has to say: one thing, at one place."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal[
    "schema", "container", "tensors", "engine", "integrity", "tokenizer", "template", "note"
]


@dataclass(frozen=True)
class Finding:
    """One problem of a package, or a remark on what could not be checked.

    Attributes:
        kind: which kind of check found it; `note` is the only one that is no problem.
        where: the file.
        message: the place in the file, what was expected there, and what was found.
    """

    kind: Kind
    where: str
    message: str

    @property
    def is_problem(self) -> bool:
        return self.kind != "note"
