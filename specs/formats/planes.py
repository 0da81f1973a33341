"""Group planes: one parameter for every group of columns of every row, in the order stored.

The two orders are those of uzu 0.6 and uzu 0.5; they differ for `output_input` matrices only.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from masu.specs.formats.base import Planes
from masu.specs.tensors import Layout, Shape

ROW_MULTIPLE = 4
"""Transposed planes are padded with zeros to a multiple of so many rows."""


def group_problem(shape: Shape, group_size: int) -> str | None:
    """Why the columns do not fall into whole groups."""
    if shape[-1] % group_size == 0:
        return None
    return f"{shape[-1]} columns are not a multiple of the group size {group_size}"


@dataclass(frozen=True)
class GroupPlane:
    """Values `[..., rows, groups]`, stored like that or as `[..., groups, rows + padding]`."""

    lead: Shape
    rows: int
    groups: int
    transposed: bool

    @classmethod
    def of(cls, shape: Shape, group_size: int, layout: Layout, planes: Planes) -> "GroupPlane":
        """The plane of a matrix `[..., rows, columns]`."""
        *lead, rows, columns = shape
        transposed = cls.row_axis(layout, planes) == -1
        return cls(tuple(lead), rows, columns // group_size, transposed)

    @staticmethod
    def row_axis(layout: Layout, planes: Planes) -> int:
        """The axis of the stored plane along which rows lie."""
        return -1 if layout == "output_input" and planes == "group_major" else -2

    @property
    def shape(self) -> Shape:
        """The stored shape, padding included (codes: before they are packed)."""
        if not self.transposed:
            return (*self.lead, self.rows, self.groups)
        return (*self.lead, self.groups, self.rows + self._padding)

    @property
    def _padding(self) -> int:
        return -self.rows % ROW_MULTIPLE

    def read(self, stored: Any, xp: Any = np) -> Any:
        """Values `[..., rows, groups]` of the stored plane."""
        return xp.swapaxes(stored[..., : self.rows], -1, -2) if self.transposed else stored

    def write(self, values: Any, xp: Any = np) -> Any:
        """The plane to store for values `[..., rows, groups]`."""
        if not self.transposed:
            return values
        padding = [(0, 0)] * (len(self.lead) + 1) + [(0, self._padding)]
        return xp.pad(xp.swapaxes(values, -1, -2), padding)
