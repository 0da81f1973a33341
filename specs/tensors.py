"""What a config expects in model.safetensors, before any weight format is known."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from masu.specs.dtypes import DType

Layout = Literal["output_input", "input_output"]
Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class ArraySpec:
    """One stored array: element type (the file's name for it) and shape."""

    dtype: str
    shape: Shape

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


@dataclass(frozen=True)
class Vector:
    """A tensor stored as it is, under its own name. `dtype` None means the model's dtype."""

    shape: Shape
    dtype: DType | None = None


@dataclass(frozen=True)
class Matrix:
    """A weight matrix, stored in some weight format: the name is that of the format's folder.

    `shape` is `[..., rows, columns]` as stored: `[out, in]` for layout `output_input`, and
    `[in, out]` for `input_output` (a table `[vocab, width]`). Groups run along the columns.
    """

    shape: Shape
    layout: Layout = "output_input"


Entry: TypeAlias = Vector | Matrix
Entries: TypeAlias = Iterator[tuple[str, Entry]]


def under(prefix: str, entries: Iterable[tuple[str, Entry]]) -> Entries:
    """The same entries, one level down: `under("mlp", ...)` yields `mlp.<name>`."""
    for name, entry in entries:
        yield f"{prefix}.{name}", entry


def linear(prefix: str, rows: int, columns: int, *, biases: bool = False) -> Entries:
    """A projection `[columns] -> [rows]`: its matrix and, if it has one, its bias vector."""
    yield f"{prefix}.weights", Matrix((rows, columns))
    if biases:
        yield f"{prefix}.biases", Vector((rows,))
