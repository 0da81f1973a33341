"""A product of two thin matrices."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

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
