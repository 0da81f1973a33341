"""Round to nearest: each format's own encoder, value by value."""

from collections.abc import Mapping

import numpy as np

from masu.quantizers.method import Method
from masu.specs.formats.base import Format, Planes


class RoundToNearest(Method):
    """Parameters from the extremes of each group, then the nearest code; any format."""

    name = "rtn"

    def encode_plain(
        self, weight_format: Format, values: np.ndarray, dtype: str, planes: Planes
    ) -> Mapping[str, np.ndarray]:
        return weight_format.encode(values, dtype, planes)


METHOD = RoundToNearest()
