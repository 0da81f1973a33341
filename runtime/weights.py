"""A weight matrix as the runtime holds it: a format and the arrays that the format stores."""

from collections.abc import Mapping
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
    """

    format: WeightFormat
    arrays: Mapping[str, Any]
    shape: Shape
    planes: Planes

    def decode(self, dtype: np.dtype, xp: Any) -> Any:
        """The matrix in `dtype`; not a copy where it is held like that already."""
        if isinstance(self.format, FullPrecisionSpec) and self.arrays["weights"].dtype == dtype:
            return self.arrays["weights"]
        return self.format.decode(self.arrays, self.shape, self.planes, dtype, xp)

    def decoded(self, dtype: np.dtype, xp: Any = np) -> "Weight":
        """The same matrix, held as plain numbers."""
        plain = FullPrecisionSpec(type="FullPrecisionSpec", layout=self.format.stored_layout)
        return replace(self, format=plain, arrays={"weights": self.decode(dtype, xp)})
