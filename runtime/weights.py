"""A weight matrix as the runtime holds it: a format and the arrays that the format stores."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from masu.specs.formats import WeightFormat
from masu.specs.formats.base import Planes
from masu.specs.formats.full_precision import FullPrecisionSpec
from masu.specs.tensors import Shape


@dataclass(frozen=True)
class Weight:
    """The matrix `[..., rows, columns]` of `shape`, as stored (`specs.tensors.Matrix`).

    `arrays` are the backend's own arrays by the format's suffixes; everything else is static.
    Where a backend's arrays only point to the bytes that it reads, `in_place` says how many these
    are.
    """

    format: WeightFormat
    arrays: Mapping[str, Any]
    shape: Shape
    planes: Planes
    in_place: int = 0

    def decode(self, dtype: np.dtype, xp: Any) -> Any:
        """The matrix in `dtype`; not a copy where it is held like that already."""
        if isinstance(self.format, FullPrecisionSpec) and self.arrays["weights"].dtype == dtype:
            return self.arrays["weights"]
        return self.format.decode(self.arrays, self.shape, self.planes, dtype, xp)

    def at(self, place: Any) -> "Weight":
        """One matrix of a stack; every array of every format has the stack's axis in front."""
        arrays = {suffix: values[place] for suffix, values in self.arrays.items()}
        return replace(self, arrays=arrays, shape=self.shape[1:])

    def decoded(self, dtype: np.dtype, xp: Any = np) -> "Weight":
        """The same matrix, held as plain numbers."""
        plain = FullPrecisionSpec(type="FullPrecisionSpec", layout=self.format.stored_layout)
        return replace(self, format=plain, arrays={"weights": self.decode(dtype, xp)})


def held_bytes(parameters: Any) -> int:
    """Bytes of all arrays in nested tuples, lists and weights; shared ones count once."""
    return sum(dict(_sizes(parameters)).values())


def _sizes(node: Any) -> Iterator[tuple[int, int]]:
    """Of every array its identity and its bytes."""
    if isinstance(node, Weight):
        for array in node.arrays.values():
            yield id(array), node.in_place or array.nbytes
    elif isinstance(node, tuple | list):
        for part in node:
            yield from _sizes(part)
    elif node is not None:
        yield id(node), node.nbytes
