"""Compiled by XLA, on the CPU or on any device that JAX has."""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from masu.runtime.backend import Array, Backend
from masu.runtime.weights import Weight
from masu.specs.tensors import Shape

jax.tree_util.register_dataclass(
    Weight, data_fields=["arrays"], meta_fields=["format", "shape", "planes", "in_place"]
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

    def __init__(self, activations: str | None = None) -> None:
        super().__init__(activations)
        self._compiled: dict[Hashable, Callable[..., Any]] = {}
        self._programs: Counter[str] = Counter()

    def devices(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(device.device_kind for device in jax.devices()))

    # Arrays come in and grow without a program: `jnp.asarray`, `zeros` and `concatenate` would
    # each compile one for every shape.

    def array(self, values: np.ndarray) -> Array:
        return jax.device_put(values, may_alias=False)

    def zeros(self, shape: Shape, dtype: np.dtype) -> Array:
        return self.array(np.zeros(shape, dtype))

    def grow(self, buffer: Array, capacity: int) -> Array:
        room = capacity - buffer.shape[1]
        return self.array(np.pad(self.to_numpy(buffer), ((0, 0), (0, room), (0, 0))))

    def compile(
        self, function: Callable[..., Any], config: Any, *, donate: tuple[int, ...] = ()
    ) -> Callable[..., Any]:
        """One compiled function per config, so that layers that are alike share it."""
        key = (function, config, donate)
        if key not in self._compiled:
            name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"

            def body(*arrays: Any) -> Any:
                self._programs[name] += 1  # this runs while a program is made, not when it runs
                # An implicit conversion would round where the engine does not.
                with jax.numpy_dtype_promotion("strict"):
                    return function(self, config, *arrays)

            self._compiled[key] = jax.jit(body, donate_argnums=donate, compiler_options=EXACT)
        return self._compiled[key]

    def compiled_programs(self) -> Mapping[str, int]:
        return dict(self._programs)

    def write(self, buffer: Array, rows: Array, position: Array) -> Array:
        # An update past the end would be moved back as a whole: the rows are moved within it.
        tokens = rows.shape[1]
        start = jnp.minimum(position, buffer.shape[1] - tokens)
        behind = jax.lax.dynamic_slice_in_dim(buffer, start, tokens, axis=1)
        is_before = jnp.arange(tokens, dtype=jnp.int32) < position - start
        rows = jnp.where(is_before[:, None], behind, jnp.roll(rows, position - start, axis=1))
        return jax.lax.dynamic_update_slice_in_dim(buffer, rows, start, axis=1)

    def total(self, term: Callable[[Array], Array], count: int, start: Array) -> Array:
        # A loop in the program: XLA's CPU code for a product of stacked matrices is many times
        # slower than its products one by one.
        return jax.lax.fori_loop(0, count, lambda place, sum_: sum_ + term(place), start)

    def pulled_back(
        self, function: Callable[..., Array], inputs: tuple[Any, ...], cotangent: Array
    ) -> tuple[Any, ...]:
        """The gradients of `sum(cotangent * function(*inputs))` by each of the inputs."""
        _, pull = jax.vjp(function, *inputs)
        return pull(cotangent)

    def product(self, left: Array, right: Array) -> Array:
        # By default accelerators multiply float32 in bfloat16 or TF32 parts.
        return jnp.matmul(left, right, precision=jax.lax.Precision.HIGHEST)

    def scan(
        self, step: Callable[[Any, Any], tuple[Any, Array]], state: Any, inputs: Any
    ) -> tuple[Any, Array]:
        # Unrolled, every chunk would be compiled anew, and all of them fill the caches at once.
        return jax.lax.scan(step, state, inputs)

    def erf(self, x: Array) -> Array:
        return jax.scipy.special.erf(x)


BACKEND = JaxBackend
