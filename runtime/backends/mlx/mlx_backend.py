"""The backend on MLX: codes used as they are stored, and MLX's own fused operations."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

try:
    import mlx.core as mx  # pyright: ignore[reportMissingImports]
except ImportError as missing:
    raise ImportError("MLX is not installed: `pip install 'masu[metal]'`") from missing

from masu.runtime.affine import Affine, affine
from masu.runtime.backend import Array, Backend, wide_dtype
from masu.runtime.backends.mlx.namespace import MLXNamespace, mlx_dtype
from masu.runtime.weights import Weight
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.formats.full_precision import FullPrecisionSpec
from masu.specs.tensors import Shape

BFLOAT16 = NUMPY_DTYPES["BF16"]


class MLXBackend(Backend):
    """Integer and MLX codes stay codes; all other formats are decoded once, at load.

    MLX's kernels for the GPU sum narrow arrays in float32 and round once, as the engine does;
    they get activations as they are. Its code for the CPU rounds every partial sum, so there all
    products and attention are given wide arrays (`is_gpu` tells the two apart).

    Rotations keep the default: `mx.fast.rope` would compute every angle again in each layer, on
    the GPU by `fast::cos`, whose error grows with the angle, and has no place for YaRN's factor.

    Raises:
        ImportError: MLX is not installed.
    """

    name = "mlx"
    dtypes = ("float32", "bfloat16", "float16")
    xp = MLXNamespace()

    def __init__(self, activations: str | None = None) -> None:
        super().__init__(activations)
        self.is_gpu = mx.default_device().type == mx.DeviceType.gpu

    def devices(self) -> tuple[str, ...]:
        return ("gpu",) if self.is_gpu else ("cpu",)

    def array(self, values: np.ndarray) -> Array:
        if values.dtype == BFLOAT16:
            return mx.array(values.view(np.uint16)).view(mx.bfloat16)
        return mx.array(values)

    def to_numpy(self, values: Array) -> np.ndarray:
        if values.dtype == mx.bfloat16:
            return np.array(values.view(mx.uint16)).view(BFLOAT16)
        return np.array(values)

    def copy(self, values: Array) -> Array:
        """MLX's arrays share what is alike and part when one is written to."""
        return mx.array(values)

    def compile(
        self, function: Callable[..., Any], config: Any, *, donate: tuple[int, ...] = ()
    ) -> Callable[..., Any]:
        """MLX builds a graph anew at every call; work on it starts at the function's end."""

        def run(*arrays: Any) -> Any:
            out = function(self, config, *map(self._taken, arrays))
            mx.async_eval(*_leaves(out))
            return out

        return run

    def _taken(self, node: Any) -> Any:
        """An argument with MLX's arrays for numpy's, and Python's numbers for numpy's scalars.

        numpy's would make numpy arrays of MLX's in every sum that they stand left in.
        """
        if isinstance(node, np.generic):
            return node.item()
        if isinstance(node, np.ndarray):
            return self.array(node)
        if isinstance(node, tuple):
            parts = [self._taken(part) for part in node]
            return type(node)(*parts) if hasattr(node, "_fields") else tuple(parts)
        return node

    def write(self, buffer: Array, rows: Array, position: Array) -> Array:
        start = int(position)
        end = min(start + rows.shape[1], buffer.shape[1])
        buffer[:, start:end] = rows[:, : end - start]
        return buffer

    # Weights.

    def hold(self, weight: Weight, dtype: np.dtype) -> Weight:
        wide = wide_dtype(dtype)
        codes = affine(weight, (dtype, wide) if self.is_gpu else (wide,))
        if codes is not None:
            arrays = {field: self.array(values) for field, values in codes._asdict().items()}
            return Weight(weight.format, arrays, weight.shape, weight.planes)
        if self.is_gpu and _is_matrix_of(weight, dtype):
            arrays = {"weights": self.array(weight.arrays["weights"])}
            return Weight(weight.format, arrays, weight.shape, weight.planes)
        return super().hold(weight, dtype)

    def wide(self, x: Array) -> Array:
        return x.astype(mx.float32)

    def embed(self, table: Weight, ids: Array, dtype: np.dtype) -> Array:
        table, ids = self._held(table), mx.array(ids)
        if not _has_codes(table):
            rows = table.arrays["weights"][ids]
        else:
            words, scales, biases = (table.arrays[field][ids] for field in Affine._fields)
            rows = mx.dequantize(words, self.wide(scales), self.wide(biases), **_packing(table))
        return self.wide(rows).astype(mlx_dtype(dtype))

    def linear(self, x: Array, weight: Weight, biases: Array | None = None) -> Array:
        if self.is_gpu and biases is None:  # rounded once, by the kernel
            return self._product(x, self._held(weight)).astype(x.dtype)
        return super().linear(x, weight, biases)

    def readout(self, x: Array, weight: Weight) -> Array:
        return self._product(self.wide(x), self._held(weight))

    def _product(self, x: Array, weight: Weight) -> Array:
        """In the wider dtype of the activations and the planes or the matrix."""
        arrays = weight.arrays
        if not _has_codes(weight):
            return mx.matmul(x, mx.swapaxes(arrays["weights"], -1, -2))
        words, scales, biases = (arrays[field] for field in Affine._fields)
        return mx.quantized_matmul(x, words, scales, biases, transpose=True, **_packing(weight))

    def _held(self, weight: Weight) -> Weight:
        """The weight in MLX's arrays, if it still is as the file stores it."""
        is_stored = any(isinstance(array, np.ndarray) for array in weight.arrays.values())
        return self.hold(weight, np.dtype(np.float32)) if is_stored else weight

    # Operations that MLX has fused.

    def norm(
        self, x: Array, config: NormalizationConfig, scales: Array | None, biases: Array | None
    ) -> Array:
        is_plain = scales is None or scales.shape == x.shape[-1:]
        if config.subtract_mean or biases is not None or not is_plain:
            return super().norm(x, config, scales, biases)
        shifted = None if scales is None else scales + (config.scale_offset or 0.0)
        if config.upcast_mode == "only_normalization":  # MLX's own rounding
            narrow = None if shifted is None else shifted.astype(x.dtype)
            return mx.fast.rms_norm(x, narrow, config.epsilon)
        return mx.fast.rms_norm(self.wide(x), shifted, config.epsilon).astype(x.dtype)

    def erf(self, x: Array) -> Array:
        return mx.erf(x)

    def largest(self, values: Array, count: int) -> Array:
        """By each value's rank, for MLX does not promise a stable sort."""
        place = mx.arange(values.shape[-1])
        ours, others = values[:, :, None], values[:, None, :]
        is_before = (others > ours) | ((others == ours) & (place[None, :] < place[:, None]))
        ranks = mx.sum(is_before, axis=-1)
        return mx.argsort(ranks, axis=-1)[:, :count]

    def attention(
        self,
        queries: Array,
        keys: Array,
        values: Array,
        *,
        position: Array,
        length: Array,
        scale: float,
        is_causal: bool,
        window: int | None,
        soft_cap: float | None,
        sinks: Array | None,
    ) -> Array:
        """As the default, over the filled rows within reach only; a soft cap takes the default."""
        given = {"is_causal": is_causal, "window": window}
        position, length = int(position), int(length)
        if soft_cap is not None:
            return super().attention(
                queries, keys, values, position=position, length=length, scale=scale,
                soft_cap=soft_cap, sinks=sinks, **given,
            )  # fmt: skip
        first = _first_in_reach(position, is_causal, window)
        seen = self.visible(
            queries.shape[0], length - first, position - first, length - first, **given
        )
        rows = (keys[None, :, first:length], values[None, :, first:length])
        dtype = queries.dtype if self.is_gpu else mx.float32
        out = mx.fast.scaled_dot_product_attention(
            mx.swapaxes(queries, 0, 1)[None].astype(dtype),
            *(each.astype(dtype) for each in rows),
            scale=scale,
            mask=seen,
            sinks=None if sinks is None else sinks.astype(dtype),
        )
        return mx.swapaxes(out[0], 0, 1).astype(queries.dtype)

    def zeros(self, shape: Shape, dtype: np.dtype) -> Array:
        return self.xp.zeros(shape, dtype)


def _first_in_reach(position: int, is_causal: bool, window: int | None) -> int:
    """The first key that the first query sees."""
    if window is None:
        return 0
    return max(0, position - (window - 1 if is_causal else window // 2))


def _is_matrix_of(weight: Weight, dtype: np.dtype) -> bool:
    """Plain numbers in this dtype, and no table: those are read out wide at every step."""
    spec = weight.format
    is_plain = isinstance(spec, FullPrecisionSpec) and spec.layout == "output_input"
    return is_plain and weight.arrays["weights"].dtype == dtype


def _has_codes(weight: Weight) -> bool:
    return "words" in weight.arrays


def _packing(weight: Weight) -> dict[str, Any]:
    """What MLX calls the fields of a format that `affine` takes."""
    spec: Any = weight.format
    return {"group_size": spec.group_size, "bits": spec.bits}


def _leaves(node: Any) -> Iterator[Array]:
    """Every array in nested tuples."""
    if isinstance(node, tuple):
        for part in node:
            yield from _leaves(part)
    elif node is not None:
        yield node
