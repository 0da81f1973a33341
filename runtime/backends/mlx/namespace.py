"""`mlx.core` as an array namespace: the few functions that take a dtype take numpy's as well."""

from typing import Any

import mlx.core as mx  # pyright: ignore[reportMissingImports]
import numpy as np

from masu.specs.dtypes import NUMPY_DTYPES

DTYPES: dict[np.dtype, Any] = {
    NUMPY_DTYPES["BF16"]: mx.bfloat16,
    np.dtype(np.float16): mx.float16,
    np.dtype(np.float32): mx.float32,
    np.dtype(np.int32): mx.int32,
}


def mlx_dtype(dtype: Any) -> Any:
    """MLX's own name for a dtype of either library; None stays None."""
    return dtype if dtype is None or isinstance(dtype, mx.Dtype) else DTYPES[np.dtype(dtype)]


class MLXNamespace:
    """Everything that is not here is `mlx.core`'s own."""

    def __getattr__(self, name: str) -> Any:
        return getattr(mx, name)

    def asarray(self, values: Any, dtype: Any = None) -> Any:
        return mx.array(values, mlx_dtype(dtype))

    def arange(self, *bounds: int, dtype: Any = None) -> Any:
        return mx.arange(*bounds, dtype=mlx_dtype(dtype))

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return mx.zeros(shape, mlx_dtype(dtype))

    def ones(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return mx.ones(shape, mlx_dtype(dtype))
