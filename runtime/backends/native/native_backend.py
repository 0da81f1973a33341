"""The JAX backend with native kernels for stored weights, norms, attention and all between."""

from collections.abc import Callable, Hashable
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from masu.runtime.backend import Array, wide_dtype
from masu.runtime.backends.native import library
from masu.runtime.backends.native.calls import MATRIX, TILE, call
from masu.runtime.backends.native.in_one import InOne
from masu.runtime.backends.native.matrix import Unserved, described
from masu.runtime.backends.native.step_backend import StepBackend
from masu.runtime.weights import Weight
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.errors import RequestError
from masu.specs.formats.d4s4 import D4S4Spec


class NativeBackend(StepBackend):
    """Weights stay as they are stored, where kernels read them so; else they become float32.

    Raises:
        ImportError: the kernels were not built, or cannot be loaded.
    """

    name = "native"
    reads_in_place = True
    longest_step = 512
    roundings = ("int8",)

    def __init__(self, activations: str | None = None) -> None:
        super().__init__(activations)
        library.load_library()
        self._parts: dict[Hashable, Callable[..., Any]] = {}

    def compile(
        self, function: Callable[..., Any], config: Any, *, donate: tuple[int, ...] = ()
    ) -> Callable[..., Any]:
        """As for JAX; where a whole step is traced, the function is a part of it."""
        compiled = super().compile(function, config, donate=donate)

        def part(*arrays: Any) -> Any:
            with jax.numpy_dtype_promotion("strict"):
                return function(self, config, *arrays)

        traced = self._parts.setdefault((function, config), jax.jit(part))

        def either(*arrays: Any) -> Any:
            is_traced = any(isinstance(each, Tracer) for each in arrays)
            return traced(*arrays) if is_traced else compiled(*arrays)

        return either

    def in_one(self, function: Callable[..., tuple[Any, Any]]) -> Callable[..., tuple[Any, Any]]:
        return InOne(function)

    def set_threads(self, count: int) -> None:
        if count < 1:
            raise RequestError(f"the number of threads must be 1 or more, found {count}")
        library.set_threads(count)

    def hold(self, weight: Weight, dtype: np.dtype) -> Weight:
        if isinstance(weight.format, D4S4Spec):
            return super().hold(weight, dtype)
        try:
            words = described(weight)
        except Unserved:
            weight = weight.decoded(np.dtype(np.float32))
            words = described(weight)
        held = sum(array.nbytes for array in weight.arrays.values())
        # An alias of the words, which keep what they point to: XLA holds on to them while it runs.
        matrix = jax.device_put(words, may_alias=True)
        return Weight(weight.format, {MATRIX: matrix}, weight.shape, weight.planes, held)

    def embed(self, table: Weight, ids: Array, dtype: np.dtype) -> Array:
        if MATRIX not in table.arrays:
            return super().embed(table, ids, dtype)
        out = jax.ShapeDtypeStruct((ids.shape[0], table.shape[-1]), dtype)
        return call("masu_lookup", out, ids.astype(np.int32), table.arrays[MATRIX])

    def linear(self, x: Array, weight: Weight, biases: Array | None = None) -> Array:
        if MATRIX not in weight.arrays:
            return super().linear(x, weight, biases)
        return self._product(x, weight, biases, x.dtype)

    def readout(self, x: Array, weight: Weight) -> Array:
        if MATRIX not in weight.arrays:
            return super().readout(x, weight)
        return self._product(x, weight, None, wide_dtype(x.dtype))

    def _gated(
        self,
        x: Array,
        up: Weight,
        biases: Array | None,
        function: int,
        numbers: tuple[float, ...],
    ) -> Array:
        hidden = up.shape[-2] // 2
        if MATRIX not in up.arrays or hidden % TILE:
            return super()._gated(x, up, biases, function, numbers)
        out = jax.ShapeDtypeStruct((*x.shape[:-1], hidden), x.dtype)
        operands = x, up.arrays[MATRIX], *(() if biases is None else (biases,))
        sizes = (function, self.activations == "int8")
        return call("masu_gated_product", out, *operands, sizes=sizes, numbers=numbers)

    def _product(self, x: Array, weight: Weight, biases: Array | None, dtype: Any) -> Array:
        out = jax.ShapeDtypeStruct((*x.shape[:-1], weight.shape[-2]), dtype)
        rest = () if biases is None else (biases,)
        sizes = (self.activations == "int8",)
        return call("masu_product", out, x, weight.arrays[MATRIX], *rest, sizes=sizes)

    def norm(
        self, x: Array, config: NormalizationConfig, scales: Array | None, biases: Array | None
    ) -> Array:
        vectors = [each for each in (scales, biases) if each is not None]
        if any(each.shape != x.shape[-1:] for each in vectors):
            return super().norm(x, config, scales, biases)
        return call(
            "masu_norm",
            jax.ShapeDtypeStruct(x.shape, x.dtype),
            x,
            *vectors,
            sizes=(
                config.subtract_mean,
                config.upcast_mode == "only_normalization",
                scales is not None,
                biases is not None,
            ),
            numbers=(config.epsilon, config.scale_offset or 0.0),
        )

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
        return call(
            "masu_attention",
            jax.ShapeDtypeStruct(queries.shape, queries.dtype),
            queries,
            keys,
            values,
            position,
            length,
            *(() if sinks is None else (sinks,)),
            sizes=(is_causal, window or 0),
            numbers=(scale, soft_cap or 0.0),
        )
