"""A weight format: its schema, the arrays it stores, and the code that packs and unpacks them."""

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from masu.specs.strict import Strict
from masu.specs.tensors import ArraySpec, Layout, Shape

Planes = Literal["group_major", "row_major"]
"""Order of group parameters of `output_input` matrices: uzu 0.6 stores `[groups, rows + pad]`,
uzu 0.5 `[rows, groups]`. Nothing in a spec says which; the package's dialect does."""

Arrays: TypeAlias = Mapping[str, np.ndarray]
"""The stored arrays of one matrix, by suffix."""


class Format(Strict):
    """How one matrix `[..., rows, columns]` (as stored, see `specs.tensors.Matrix`) is kept.

    Arrays are named by suffix: a format at path `M` stores `M.<suffix>`. Leading axes (experts)
    stand in front of every array.
    """

    @property
    @abstractmethod
    def stored_layout(self) -> Layout:
        """Orientation of the stored matrix."""

    @abstractmethod
    def problem(self, shape: Shape) -> str | None:
        """Why a matrix of this shape cannot be kept in this format (sizes, divisibility)."""

    @abstractmethod
    def arrays(self, shape: Shape, dtype: str, planes: Planes) -> dict[str, ArraySpec]:
        """The stored arrays of a matrix of this shape; `dtype` is the model's own."""

    @abstractmethod
    def decode(
        self, arrays: Mapping[str, Any], shape: Shape, planes: Planes, dtype: Any, xp: Any = np
    ) -> Any:
        """The matrix `[..., rows, columns]`, computed in `dtype`; `xp` is numpy or jax.numpy."""

    @abstractmethod
    def encode(self, values: np.ndarray, dtype: str, planes: Planes) -> dict[str, np.ndarray]:
        """The arrays that `arrays` announces, for finite float32 `[..., rows, columns]` as stored.

        Each value is rounded to the nearest that the format can say. `dtype` is the model's own.
        """

    @property
    def row_multiple(self) -> int | None:
        """Rows may be encoded in chunks of a multiple of so many; None: only all at once."""
        return None

    def join(self, chunks: Sequence[Arrays], planes: Planes) -> dict[str, np.ndarray]:
        """The arrays of a matrix from those of its chunks of rows, first to last.

        Every chunk but the last has a multiple of `row_multiple` rows. The same bytes as `encode`
        of the whole matrix.
        """
        joined: dict[str, np.ndarray] = {}
        for suffix, first in chunks[0].items():
            axis = self.row_axis(suffix, planes)
            parts = [chunk[suffix] for chunk in chunks]
            joined[suffix] = first if axis is None else np.concatenate(parts, axis)
        return joined

    @property
    def rows_apart(self) -> int | None:
        """Rows may be decoded in chunks that begin at a multiple of so many; None: only all."""
        return self.row_multiple

    def decode_rows(
        self, arrays: Arrays, shape: Shape, start: int, stop: int, planes: Planes, dtype: Any
    ) -> np.ndarray:
        """Rows `start..stop` of a matrix `[rows, columns]`: those of `decode`, by themselves.

        Where rows are not apart, all are decoded for them.
        """
        if (unit := self.rows_apart) is None:
            return self.decode(arrays, shape, planes, dtype)[start:stop]
        first, last = start // unit * unit, min(-(-stop // unit) * unit, shape[0])
        own = (last - first, shape[1])
        cut = self._cut(arrays, first, own, planes)
        return self.decode(cut, own, planes, dtype)[start - first : stop - first]

    def _cut(self, arrays: Arrays, first: int, own: Shape, planes: Planes) -> dict[str, np.ndarray]:
        """The arrays of a matrix of the shape `own` whose first row is the row `first` here."""
        before = self.arrays((first, own[1]), "BF16", planes)  # the type changes no shape
        inside = self.arrays(own, "BF16", planes)
        cut: dict[str, np.ndarray] = {}
        for suffix, array in arrays.items():
            if (axis := self.row_axis(suffix, planes)) is None:
                cut[suffix] = array
                continue
            begin = before[suffix].shape[axis]
            span = slice(begin, begin + inside[suffix].shape[axis])
            cut[suffix] = array[..., span] if axis == -1 else array[..., span, :]
        return cut

    def row_axis(self, suffix: str, planes: Planes) -> int | None:
        """The axis of a stored array along which rows lie; None if all rows share the array."""
        return -2

    def metadata(self, path: str) -> dict[str, str]:
        """The entries of the file's metadata that describe a matrix at `path`."""
        return {f"{path}.spec": self.to_json()}

    def to_json(self) -> str:
        """One line, separators `", "` and `": "`, as lalamo writes it."""
        return json.dumps(self.model_dump())
