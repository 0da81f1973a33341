"""Scale search: the range of a group is narrowed as long as that lowers its squared error."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from masu.quantizers.method import Method
from masu.specs.formats.base import Format, Planes
from masu.specs.formats.grouped import GroupedFormat, of_lowest_error

SHRINKAGES = tuple(1 - step / 40 for step in range(17))
"""Fractions of a group's range: 1, 0.975, ..., 0.6. The first, round to nearest, wins ties."""


class Clip(Method):
    """Round to nearest under the best of several ranges; what stands out is cut off.

    Fewer values at the ends are traded for a finer step between them.
    """

    name = "clip"

    def problem(self, weight_format: Format) -> str | None:
        return self.needs_groups(weight_format)

    def encode_plain(
        self, weight_format: Format, values: np.ndarray, dtype: str, planes: Planes
    ) -> Mapping[str, np.ndarray]:
        assert isinstance(weight_format, GroupedFormat)  # `problem` has refused everything else

        def fit(groups: np.ndarray, dtype: str, whole: np.ndarray | None) -> Any:
            narrowed = (groups * np.float32(part) for part in SHRINKAGES)
            candidates = (weight_format.fit(each, dtype, whole) for each in narrowed)
            return of_lowest_error(weight_format, groups, candidates)

        return weight_format.encode_with(fit, values, dtype, planes)


METHOD = Clip()
