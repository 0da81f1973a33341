"""Plain numbers in the model's dtype."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.formats.base import Format, Planes
from masu.specs.tensors import ArraySpec, Layout, Shape


class FullPrecisionSpec(Format):
    """`weights`: the matrix itself."""

    type: Literal["FullPrecisionSpec"]
    layout: Layout

    @property
    def stored_layout(self) -> Layout:
        return self.layout

    def problem(self, shape: Shape) -> str | None:
        return None

    def arrays(self, shape: Shape, dtype: str, planes: Planes) -> dict[str, ArraySpec]:
        return {"weights": ArraySpec(dtype, shape)}

    def decode(
        self, arrays: Mapping[str, Any], shape: Shape, planes: Planes, dtype: Any, xp: Any = np
    ) -> Any:
        return arrays["weights"].astype(dtype)

    def encode(self, values: np.ndarray, dtype: str, planes: Planes) -> dict[str, np.ndarray]:
        """Ties go to the even neighbour."""
        return {"weights": values.astype(NUMPY_DTYPES[dtype])}

    @property
    def row_multiple(self) -> int | None:
        return 1
