"""What each native kernel promises: XLA's targets, tests and reports come from this list."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from masu.runtime.backend import Backend


@dataclass(frozen=True)
class Kernel:
    """One kernel and its contract.

    Attributes:
        target: its name in the library, and for XLA.
        operations: of `Backend`, that it computes. The reference is the same operation of the
            numpy backend on float64.
        serves: the formats and sizes that it takes; everything else goes to plain JAX.
        accumulator: what it sums in, and in which order.
        is_row_invariant: a row's bits do not depend on how many rows share the call.
        non_finite: what becomes of infinities and NaN.
    """

    target: str
    operations: tuple[str, ...]
    serves: str
    accumulator: str
    is_row_invariant: bool
    non_finite: str

    def reference(self, numpy_backend: Backend) -> tuple[Callable[..., Any], ...]:
        """The operations that say what is right, on the numpy backend."""
        return tuple(getattr(numpy_backend, operation) for operation in self.operations)


LANES = "float32 in 16 lanes, added in one tree; columns in the order in which they are stored"
CLASSES = "each output is NaN, an infinity or finite as in plain arithmetic"

KERNELS = (
    Kernel(
        "masu_product",
        ("linear", "readout"),
        "FullPrecision (F32, F16, BF16); MLX 1, 4, 8 bits; Int 4, 8 bits; LloydMax 4 bits;"
        " Microfloat; groups of 16, 32, 64 ... columns; Hybrid of these without an adapter",
        LANES,
        is_row_invariant=True,
        non_finite=CLASSES,
    ),
    Kernel(
        "masu_lookup",
        ("embed",),
        "the formats of masu_product, but for Hadamard transforms across rows",
        "nothing is summed, but for Hadamard transforms: float32, pairs in their natural order",
        is_row_invariant=True,
        non_finite=CLASSES,
    ),
    Kernel(
        "masu_attention",
        ("attention",),
        "every head width, grouping, window, soft cap and sink; one type for queries and cache",
        "float32 in 16 lanes; keys in blocks of 16 that begin at multiples of 16 of the sequence,"
        " with a running maximum and sum",
        is_row_invariant=True,
        non_finite="a NaN in a key or value that is seen reaches the output; void rows do not",
    ),
    Kernel(
        "masu_norm",
        ("norm",),
        "every width; scales and biases as wide as the rows",
        LANES,
        is_row_invariant=True,
        non_finite=CLASSES,
    ),
)
"""No kernel writes into its operands, nor past its outputs."""
