"""Compiled by XLA, on the CPU or on any device that JAX has."""

from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp

from masu.runtime.backend import Array, Backend
from masu.runtime.weights import Weight

jax.tree_util.register_dataclass(
    Weight, data_fields=["arrays"], meta_fields=["format", "shape", "planes"]
)


EXACT = {"xla_allow_excess_precision": False}
"""By default XLA leaves out a rounding whose result is widened again, and with it the engine's."""


class JaxBackend(Backend):
    """Weights are decoded to float32 once, at load, whatever the activations are.

    XLA's CPU code multiplies bfloat16 at a few per cent of the memory's bandwidth and cannot fuse
    a 4-bit decode into a product; its float32 product runs at full speed. Rounded activations
    times exactly widened weights, summed in float32, is what the engine computes.
    """

    name = "jax"
    dtypes = ("float32", "bfloat16", "float16")
    xp = jnp

    def __init__(self) -> None:
        self._compiled: dict[Hashable, Callable[..., Any]] = {}

    def compile(
        self, function: Callable[..., Any], config: Any, *, donate: tuple[int, ...] = ()
    ) -> Callable[..., Any]:
        """One compiled function per config, so that layers that are alike share it."""
        key = (function, config, donate)
        if key not in self._compiled:

            def body(*arrays: Any) -> Any:
                # An implicit conversion would round where the engine does not.
                with jax.numpy_dtype_promotion("strict"):
                    return function(self, config, *arrays)

            self._compiled[key] = jax.jit(body, donate_argnums=donate, compiler_options=EXACT)
        return self._compiled[key]

    def write(self, buffer: Array, rows: Array, position: Array) -> Array:
        # An update past the end would be moved back as a whole: the rows are moved within it.
        tokens = rows.shape[1]
        start = jnp.minimum(position, buffer.shape[1] - tokens)
        behind = jax.lax.dynamic_slice_in_dim(buffer, start, tokens, axis=1)
        is_before = jnp.arange(tokens, dtype=jnp.int32) < position - start
        rows = jnp.where(is_before[:, None], behind, jnp.roll(rows, position - start, axis=1))
        return jax.lax.dynamic_update_slice_in_dim(buffer, rows, start, axis=1)

    def product(self, left: Array, right: Array) -> Array:
        # By default accelerators multiply float32 in bfloat16 or TF32 parts.
        return jnp.matmul(left, right, precision=jax.lax.Precision.HIGHEST)

    def erf(self, x: Array) -> Array:
        return jax.scipy.special.erf(x)


BACKEND = JaxBackend
