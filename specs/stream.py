"""The planned tensor stream: what will be written, known before any weight is read.

The converter produces one, quantisers map one to another, the package writer consumes it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np

from masu.specs.formats import WeightFormat
from masu.specs.tensors import ArraySpec, Shape


@dataclass(frozen=True)
class FileRange:
    """Bytes of a file that go into the package as they are, never as an array."""

    path: Path
    offset: int
    length: int


Piece: TypeAlias = FileRange | np.ndarray
"""The next bytes of one stored array: a stretch of a file, or a C-ordered array."""


class Reader(Protocol):
    def __call__(self, start: int, stop: int) -> np.ndarray:
        """Rows `start..stop` of the tensor's first axis, in the source's own precision."""
        ...


@dataclass(frozen=True, kw_only=True)
class PlannedTensor:
    """One tensor of the package to be: a vector (`format` None) or a matrix in a format.

    Attributes:
        name: engine name; for a matrix that of its folder (`...qkvg_projection.weights`).
        format: the weight format; None for a vector, which is stored under `name` itself.
        shape: logical shape, `[..., rows, columns]` as stored.
        arrays: every stored array, by its full name in the file.
        read: the values before the format's own rounding.
        decoded: what the stored arrays decode to, float32, where the format holds codes and
            rounding its parameters makes that differ from `read`; None where it is `read`.
        pieces: the stored bytes as (full array name, next piece); arrays may alternate, each
            array's pieces come in order.
        copied: the stretch of the source that the only stored array is a plain copy of, if it is.
    """

    name: str
    format: WeightFormat | None
    shape: Shape
    arrays: Mapping[str, ArraySpec]
    read: Reader
    pieces: Callable[[], Iterator[tuple[str, Piece]]]
    copied: FileRange | None = None
    decoded: Reader | None = None
