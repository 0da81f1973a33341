"""A product of two thin matrices."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.formats.base import Format, Planes
from masu.specs.strict import Count
from masu.specs.tensors import ArraySpec, Layout, Shape


class LowRankSpec(Format):
    """`W = up_projection @ down_projection`, by way of `rank` channels."""

    type: Literal["LowRankSpec"]
    rank: Count

    @property
    def stored_layout(self) -> Layout:
        return "output_input"

    def problem(self, shape: Shape) -> str | None:
        smaller = min(shape[-2:])
        if self.rank <= smaller:
            return None
        return f"rank {self.rank} is above {smaller}, the smaller side of {list(shape)}"

    def arrays(self, shape: Shape, dtype: str, planes: Planes) -> dict[str, ArraySpec]:
        *lead, rows, columns = shape
        return {
            "down_projection": ArraySpec(dtype, (*lead, self.rank, columns)),
            "up_projection": ArraySpec(dtype, (*lead, rows, self.rank)),
        }

    def decode(
        self, arrays: Mapping[str, Any], shape: Shape, planes: Planes, dtype: Any, xp: Any = np
    ) -> Any:
        down = arrays["down_projection"].astype(dtype)
        return xp.matmul(arrays["up_projection"].astype(dtype), down)

    def encode(self, values: np.ndarray, dtype: str, planes: Planes) -> dict[str, np.ndarray]:
        """The nearest product of this rank, by the singular value decomposition.

        Each factor gets the square root of the singular values, so that both are rounded alike.
        Computed in float64: what the libraries of a machine round otherwise is lost in `dtype`, but
        for values that stand exactly between two of its numbers. The largest entry of each row of
        `down_projection` is positive, which the decomposition leaves open.
        """
        up, singular, down = np.linalg.svd(values.astype(np.float64), full_matrices=False)
        roots = np.sqrt(singular[..., : self.rank])
        up = up[..., : self.rank] * roots[..., None, :]
        down = down[..., : self.rank, :] * roots[..., :, None]
        largest = np.abs(down).argmax(-1)[..., None]
        signs = np.where(np.take_along_axis(down, largest, -1) < 0, -1, 1)
        target = NUMPY_DTYPES[dtype]
        return {
            "down_projection": (down * signs).astype(target),
            "up_projection": (up * signs.swapaxes(-1, -2)).astype(target),
        }
