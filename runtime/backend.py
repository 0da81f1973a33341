"""What a backend supplies: operations of a kernel's size, each with a default in plain arrays.

A new backend is one file in `backends/`: it names its array namespace and overrides what it does
better. Blocks use these operations only, so every block runs on every backend.

Rounding is the same everywhere, and is the engine's. Activations have one dtype; sums, norms,
softmax, rotations and activation functions are computed in the *wide* dtype (float32, or float64
where the activations are float64) and rounded to the activations' dtype at the operation's end.
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from masu.runtime import experts
from masu.runtime.array_operations import Array, ArrayOperations, wide_dtype
from masu.runtime.weights import Weight
from masu.specs.blocks.activation import Activation
from masu.specs.blocks.dense_mlp import Clipping
from masu.specs.blocks.norm import NormalizationConfig
from masu.specs.blocks.plain_mlp import PlainMLPConfig
from masu.specs.dtypes import FLOAT_DTYPES, NUMPY_DTYPES
from masu.specs.errors import RequestError
from masu.specs.tensors import Shape

ACTIVATION_DTYPES: dict[str, np.dtype] = {
    "float64": np.dtype(np.float64),
    **{name: NUMPY_DTYPES[stored] for name, stored in FLOAT_DTYPES.items()},
}


class Backend(ArrayOperations):
    """Plain array code over `xp`; see the module for the rounding it keeps to.

    Attributes:
        name: that of its file.
        dtypes: the activations it computes in.
        xp: the array namespace (numpy, jax.numpy ...).
        reads_in_place: `hold` wants matrices where they are stored, and copies none.
        longest_step: rows of the steps in which a long prompt is read; 0 where they are the same as
            for a short one. More rows read weights less often, and need more memory.
        roundings: what it can round rows of activations to that meet stored codes.
        activations: what this one rounds them to; None leaves them as they are.
    """

    name: ClassVar[str]
    dtypes: ClassVar[tuple[str, ...]]
    reads_in_place: ClassVar[bool] = False
    longest_step: ClassVar[int] = 0
    roundings: ClassVar[tuple[str, ...]] = ()

    def __init__(self, activations: str | None = None) -> None:
        """`activations` holds for all that is ever compiled here.

        Raises:
            RequestError: this backend does not round to that.
        """
        if activations is not None and activations not in self.roundings:
            raise RequestError(
                f"backend {self.name!r} does not round activations to {activations!r}",
                hint=f"it knows {', '.join(self.roundings)}"
                if self.roundings
                else "the native backend rounds them to int8",
            )
        self.activations = activations

    def default_dtype(self, stored: str) -> str:
        """Activations for a package whose parameters have this type (the file's name for it)."""
        return next(name for name, in_file in FLOAT_DTYPES.items() if in_file == stored)

    def devices(self) -> tuple[str, ...]:
        """What it computes on here."""
        return ("cpu",)

    def set_threads(self, count: int) -> None:
        """Share the work of the backend's own kernels among so many threads of this process.

        Raises:
            RequestError: there are none, or `count` is not positive.
        """
        raise RequestError(f"backend {self.name!r} leaves the number of threads to its library")

    # Arrays: how they come in, go out, are kept, and how a function over them is compiled.

    def array(self, values: np.ndarray) -> Array:
        return self.xp.asarray(values)

    def to_numpy(self, values: Array) -> np.ndarray:
        return np.asarray(values)

    def copy(self, values: Array) -> Array:
        return self.xp.array(values, copy=True)

    def zeros(self, shape: Shape, dtype: np.dtype) -> Array:
        return self.xp.zeros(shape, dtype)

    def hold(self, weight: Weight, dtype: np.dtype) -> Weight:
        """A stored matrix (of numpy arrays) in the form that this backend computes with.

        The default decodes it once, to the wide dtype of activations of `dtype`. A backend with
        kernels for stored codes keeps them, and overrides `embed`, `linear` and `readout`.
        """
        decoded = weight.decoded(wide_dtype(dtype))
        return Weight(
            decoded.format,
            {suffix: self.array(values) for suffix, values in decoded.arrays.items()},
            decoded.shape,
            decoded.planes,
        )

    def compile(
        self, function: Callable[..., Any], config: Any, *, donate: tuple[int, ...] = ()
    ) -> Callable[..., Any]:
        """`function(backend, config, *arrays)` as a function of the arrays alone.

        Args:
            config: hashable; equal configs may share the compiled code.
            donate: places among `arrays` that the call may overwrite.
        """
        return functools.partial(function, self, config)

    def in_one(self, function: Callable[..., tuple[Any, Any]]) -> Callable[..., tuple[Any, Any]]:
        """`function(*arrays, states)`, which calls compiled functions one after the other.

        It returns a result and the states; a backend may run it as one program, which writes over
        the states that it was given.
        """
        return function

    def compiled_programs(self) -> Mapping[str, int]:
        """How many programs were compiled so far, by the function (`layer.apply`); none here."""
        return {}

    def write(self, buffer: Array, rows: Array, position: Array) -> Array:
        """The buffer `[groups, capacity, width]` with rows `[groups, tokens, width]` at `position`.

        Rows that would stand past the end are padding, and are dropped. A backend with mutable
        arrays may write in place: the caller gives the buffer up.
        """
        end = position + rows.shape[1]
        written = self.xp.concatenate([buffer[:, :position], rows, buffer[:, end:]], axis=1)
        return written[:, : buffer.shape[1]]

    def grow(self, buffer: Array, capacity: int) -> Array:
        """The buffer `[groups, old capacity, width]` with room for `capacity` rows."""
        groups, old, width = buffer.shape
        room = self.zeros((groups, capacity - old, width), buffer.dtype)
        return self.xp.concatenate([buffer, room], axis=1)

    # Products with weights.

    def embed(self, table: Weight, ids: Array, dtype: np.dtype) -> Array:
        """Rows `[tokens, width]` of a table `[vocab, width]`, as activations of `dtype`."""
        return table.decode(wide_dtype(dtype), self.xp)[ids].astype(dtype)

    def linear(self, x: Array, weight: Weight, biases: Array | None = None) -> Array:
        """`[..., in]` times a matrix `[out, in]`, plus wide biases `[out]`, rounded once."""
        out = self.readout(x, weight)
        return (out if biases is None else out + biases).astype(x.dtype)

    def readout(self, x: Array, weight: Weight) -> Array:
        """`[..., in]` times a matrix `[out, in]`, left wide."""
        wide = self.wide(x)
        return self.product(wide, weight.decode(wide.dtype, self.xp).T)

    # Norms and MLPs.

    def norm(
        self, x: Array, config: NormalizationConfig, scales: Array | None, biases: Array | None
    ) -> Array:
        """Root-mean-square norm over the last axis, or layer norm where the mean is subtracted.

        `only_normalization` rounds the normalised values and the scales before their product,
        `full_layer` rounds the product.
        """
        out = self.normalised(self.wide(x), config)
        if scales is not None:
            shifted: Array = scales + (config.scale_offset or 0.0)
            if config.upcast_mode == "only_normalization":
                out, shifted = out.astype(x.dtype), shifted.astype(x.dtype)
            out = out * shifted
        if biases is not None:
            out = self.wide(out.astype(x.dtype)) + biases
        return out.astype(x.dtype)

    def gated_mlp(
        self,
        x: Array,
        up: Weight,
        up_biases: Array | None,
        down: Weight,
        down_biases: Array | None,
        activation: Activation,
        up_clipping: Clipping | None,
        gate_clipping: Clipping | None,
    ) -> Array:
        """`down(up(x) * activation(gate(x)))`; the rows of `up` are up's, then the gate's.

        Clips come before the activation and the product. The activation is rounded, then the
        product is.
        """
        values, gates = self.xp.split(self.linear(x, up, up_biases), 2, axis=-1)
        values = self.clip(self.wide(values), up_clipping).astype(x.dtype)
        gates = self.activate(self.clip(self.wide(gates), gate_clipping), activation)
        return self.linear(values * gates.astype(x.dtype), down, down_biases)

    def ungated_mlp(
        self,
        x: Array,
        up: Weight,
        up_biases: Array | None,
        down: Weight,
        down_biases: Array | None,
        activation: Activation,
    ) -> Array:
        """`down(activation(up(x)))`; the activation is rounded."""
        hidden = self.activate(self.wide(self.linear(x, up, up_biases)), activation)
        return self.linear(hidden.astype(x.dtype), down, down_biases)

    def experts(
        self,
        x: Array,
        up: Weight,
        up_biases: Array | None,
        down: Weight,
        down_biases: Array | None,
        config: PlainMLPConfig,
        chosen: Array,
        weights: Array,
    ) -> Array:
        """What MLPs of a stack make of the rows that chose them, weighted and added up.

        Each MLP's output is rounded; the sum is wide, and rounded at the end.

        Args:
            up, down: `[experts, rows, width]` and `[experts, width, hidden]`; biases alike.
            config: of every one of them.
            chosen, weights: int and wide `[tokens, active]`.
        """
        return experts.run(self, x, up, up_biases, down, down_biases, config, chosen, weights)

    # Attention.

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
        """Softmax attention with grouped heads over a cache; `[tokens, heads, width]`.

        Args:
            queries: `[tokens, heads, width]`; row i stands at `position + i`. Consecutive heads
                share a group.
            keys, values: `[groups, capacity, width]`; rows from `length` on are void, whatever
                they hold (their values are zeroed: 0 times a stray NaN would be NaN).
            scale: multiplied into the queries, wide.
            window, is_causal: see `visible`.
            soft_cap: applied to the scaled scores, before the mask.
            sinks: wide `[heads]`: a score that takes part in the softmax and has no value.
        """
        xp = self.xp
        (tokens, heads, width), (groups, capacity, _) = queries.shape, keys.shape
        grouped = (self.wide(queries) * scale).reshape(tokens, groups, heads // groups, width)
        grouped = grouped.transpose(1, 2, 0, 3).reshape(groups, -1, width)
        scores = self.product(grouped, xp.swapaxes(self.wide(keys), 1, 2))
        scores = scores if soft_cap is None else self.soft_cap(scores, soft_cap)
        scores = scores.reshape(heads, tokens, capacity)
        seen = self.visible(tokens, capacity, position, length, is_causal, window)
        weights = self.softmax(xp.where(seen, scores, -math.inf), sinks)
        filled = xp.arange(capacity, dtype=np.int32)[:, None] < length
        kept = xp.where(filled, self.wide(values), 0.0)
        out = self.product(weights.reshape(groups, -1, capacity), kept)
        out = out.reshape(heads, tokens, width).transpose(1, 0, 2)
        return out.astype(queries.dtype)

    def visible(
        self,
        tokens: int,
        capacity: int,
        position: Array,
        length: Array,
        is_causal: bool,
        window: int | None,
    ) -> Array:
        """Which keys each query sees, `[tokens, capacity]`.

        Causal: `query - window < key <= query`. Bidirectional: `|query - key| <= window // 2`.
        A query sees itself in any case (one past the capacity: the last key), so that no row,
        not even a void one, is empty.
        """
        xp = self.xp
        query = position + xp.arange(tokens, dtype=np.int32)[:, None]
        key = xp.arange(capacity, dtype=np.int32)[None]
        seen = (key <= query) if is_causal else (key < length)
        if window is not None:
            near = query - key < window if is_causal else abs(query - key) <= window // 2
            seen = seen & near
        return seen | (key == xp.minimum(query, capacity - 1))
