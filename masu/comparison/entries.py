"""What a comparison has to say: one difference, at one place."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Section: TypeAlias = Literal[
    "config", "generation", "template", "tokenizer", "tensors", "manifest", "files"
]


@dataclass(frozen=True)
class Distance:
    """How far the values of a tensor B are from those of A, over all elements finite in both.

    Attributes:
        relative: `|A - B| / |A|` in the Frobenius norm; None where A is all zeros.
        largest: the greatest `|a - b|` of an element.
        unlike: elements of which one is not finite and the other is, or is of another kind.
    """

    relative: float | None
    largest: float
    unlike: int

    def __str__(self) -> str:
        share = "from zeros" if self.relative is None else f"relative error {self.relative:.3g}"
        unlike = f", {self.unlike:,} elements not finite in one" if self.unlike else ""
        return f"{share}, at most {self.largest:.3g}{unlike}"


@dataclass(frozen=True)
class Entry:
    """One difference.

    Attributes:
        section: which part of the package it is in.
        place: JSON path, tensor or matrix name, section of tokenizer.json, or file.
        message: what A has and what B has.
        distance: of tensors with the same shape, once decoded.
    """

    section: Section
    place: str
    message: str
    distance: Distance | None = None

    def __str__(self) -> str:
        distance = "" if self.distance is None else f": {self.distance}"
        return f"{self.message}{distance}"

    def to_json(self) -> dict[str, Any]:
        """The entry as JSON documents hold it."""
        distance = None if self.distance is None else vars(self.distance)
        return {
            "section": self.section, "place": self.place, "message": self.message,
            "distance": distance,
        }  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """Everything in which package B differs from package A."""

    entries: tuple[Entry, ...]

    @property
    def is_empty(self) -> bool:
        return not self.entries
