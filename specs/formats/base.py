"""A weight format: its schema, the arrays it stores, and the code that unpacks them."""

import json
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from masu.specs.strict import Strict
from masu.specs.tensors import ArraySpec, Layout, Shape

Planes = Literal["group_major", "row_major"]
"""Order of group parameters of `output_input` matrices: uzu 0.6 stores `[groups, rows + pad]`,
uzu 0.5 `[rows, groups]`. Nothing in a spec says which; the package's dialect does."""


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

    def metadata(self, path: str) -> dict[str, str]:
        """The entries of the file's metadata that describe a matrix at `path`."""
        return {f"{path}.spec": self.to_json()}

    def to_json(self) -> str:
        """One line, separators `", "` and `": "`, as lalamo writes it."""
        return json.dumps(self.model_dump())
