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
        serves: the formats and sizes that it takes. Other formats become float32 at load, other
            sizes go to plain JAX.
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
        " Microfloat; groups of 16, 32, 64 ... columns; Hybrid of these without an adapter;"
        " on request (activations int8) rows that meet MLX or Int codes of 4 or 8 bits rounded",
        LANES + ". Activations int8: 32 columns of a row share a scale, their largest magnitude"
        " over 127, numbers are the nearest, even ones of two; of these rows the sum is as near"
        " to the exact one as of others. With avx512-bf16 columns that share both scales, at most"
        " 32, are added as whole numbers, then times these in float32, in four sums of a row",
        is_row_invariant=True,
        non_finite=CLASSES + "; rows that are not finite are not rounded. With avx512-bf16 of"
        " bfloat16 rows: scales of groups up to 2^110, and weights below 2^-126 are zeros",
    ),
    Kernel(
        "masu_gated_product",
        ("gated_mlp",),
        "the formats of masu_product, with 32 rows of values and of gates or a multiple; every"
        " activation function and clip",
        LANES + "; rounded before the function and after it as in plain arithmetic",
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
    Kernel(
        "masu_gate",
        ("gated_mlp",),
        "every width; every activation function and clip",
        "nothing is summed; float32, rounded before the product as in plain arithmetic",
        is_row_invariant=True,
        non_finite=CLASSES,
    ),
    Kernel(
        "masu_function",
        ("activate", "sigmoid", "softplus", "soft_cap"),
        "every shape; every activation function",
        "nothing is summed; float32",
        is_row_invariant=True,
        non_finite=CLASSES,
    ),
    Kernel(
        "masu_pick",
        ("picked",),
        "float32 rows",
        "nothing is computed",
        is_row_invariant=True,
        non_finite="every bit is kept",
    ),
    Kernel(
        "masu_angles",
        ("rotations",),
        "every number of pairs",
        "nothing is summed; angles in float32, their cosines and sines in float64, rounded once",
        is_row_invariant=True,
        non_finite=CLASSES,
    ),
    Kernel(
        "masu_write",
        ("write",),
        "every cache; rows past its end are dropped",
        "nothing is computed",
        is_row_invariant=True,
        non_finite="every bit is kept",
    ),
    Kernel(
        "masu_conv",
        ("causal_conv", "gated_conv"),
        "every number of taps and channels; wide filters",
        "float32, from the oldest tap on",
        is_row_invariant=True,
        non_finite=CLASSES,
    ),
    Kernel(
        "masu_recur",
        ("recur",),
        "every grouping and size of the state, with and without the delta rule; float32",
        "float32, token after token; over a key's even places and its odd ones, then both",
        is_row_invariant=True,
        non_finite=CLASSES + ", but for padding, which leaves even such a state as it is",
    ),
    Kernel(
        "masu_scale",
        ("scaled",),
        "every width; float32",
        "nothing is summed",
        is_row_invariant=True,
        non_finite=CLASSES,
    ),
    Kernel(
        "masu_unit",
        ("unit",),
        "every width; float32",
        LANES,
        is_row_invariant=True,
        non_finite=CLASSES,
    ),
    Kernel(
        "masu_softmax",
        ("softmax",),
        "every width, without sinks; float32",
        LANES,
        is_row_invariant=True,
        non_finite="a NaN or a positive infinity makes a row NaN as far as in plain arithmetic",
    ),
    Kernel(
        "masu_argmax",
        ("argmax",),
        "every width; float32",
        "nothing is summed; of equals the first",
        is_row_invariant=True,
        non_finite="the first NaN counts as the largest",
    ),
    Kernel(
        "masu_largest",
        ("largest",),
        "every width and count; float32",
        "nothing is summed; of equals the first",
        is_row_invariant=True,
        non_finite="NaN come after all numbers",
    ),
    Kernel(
        "masu_rotate",
        ("rotate",),
        "every width and number of pairs",
        "float32, two products and a sum",
        is_row_invariant=True,
        non_finite=CLASSES,
    ),
    Kernel(
        "masu_experts",
        ("experts",),
        "stacks in the formats of masu_product; every activation function, clips and biases",
        "the products as masu_product; a row's experts in float32, in the order of its choice",
        is_row_invariant=True,
        non_finite=CLASSES + "; experts that a row gives no weight do not reach it",
    ),
    Kernel(
        "masu_d4s4_lookup",
        ("embed",),
        "D4S4",
        "nothing is summed, but for Hadamard transforms: float32, pairs in their natural order",
        is_row_invariant=True,
        non_finite=CLASSES,
    ),
    Kernel(
        "masu_d4s4_product",
        ("linear", "readout"),
        "D4S4",
        LANES,
        is_row_invariant=True,
        non_finite=CLASSES,
    ),
)
"""No kernel writes into its operands, nor past its outputs."""

PROGRAM_ONLY = ("masu_arithmetic", "masu_move")
"""No operations of `Backend`: what stands between kernels, which programs do as XLA would."""
