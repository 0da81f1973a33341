"""Products with stored matrices and look-ups in them, in every format that kernels may serve."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from masu.runtime.backend import Backend
from masu.runtime.contract.operation import (
    FLOAT32,
    FLOAT64,
    Arrays,
    Call,
    Given,
    Operation,
    Results,
    Sizes,
    Weights,
    half_unit,
    lanes,
    numbers,
)
from masu.runtime.weights import Weight
from masu.specs.formats import WEIGHT_FORMAT, WeightFormat
from masu.specs.formats.full_precision import FullPrecisionSpec
from masu.specs.formats.hybrid import HybridSpec

OUT = {"layout": "output_input"}
INT4 = {"type": "IntSpec", "bits": 4, "group_size": 16, "is_symmetric": False, **OUT}


def spec(**fields: Any) -> WeightFormat:
    return WEIGHT_FORMAT.validate_python(fields, strict=False)


PLAIN = spec(type="FullPrecisionSpec", **OUT)
FORMATS: dict[str, tuple[WeightFormat, str]] = {
    "float32": (PLAIN, "F32"),
    "bfloat16": (PLAIN, "BF16"),
    "float16": (PLAIN, "F16"),
    "Int 4": (spec(**INT4), "BF16"),
    "Int 4 symmetric": (spec(**{**INT4, "is_symmetric": True}), "F32"),
    "Int 8": (spec(**{**INT4, "bits": 8}), "F16"),
    "MLX 1": (spec(type="MLXSpec", bits=1, group_size=32, **OUT), "F32"),
    "MLX 4": (spec(type="MLXSpec", bits=4, group_size=16, **OUT), "BF16"),
    "MLX 4 in 32": (spec(type="MLXSpec", bits=4, group_size=32, **OUT), "F16"),
    "MLX 8": (spec(type="MLXSpec", bits=8, group_size=16, **OUT), "F32"),
    "LloydMax 4": (
        spec(type="LloydMaxSpec", bits=4, group_size=16, bias_bits=4, **OUT), "BF16"
    ),
    "mxfp4": (spec(type="MicrofloatSpec", bits=4, group_size=32, scale_mode="mxfp4", **OUT), "F32"),
    "nvfp4": (spec(type="MicrofloatSpec", bits=4, group_size=16, scale_mode="nvfp4", **OUT), "F32"),
    "Hybrid": (
        spec(
            type="HybridSpec",
            quantization_spec=INT4,
            adapter_spec=None,
            incoherence_block_size=32,
            incoherence_processing_mode="input_output",
        ),
        "BF16",
    ),
    "Hybrid without a transform": (
        spec(
            type="HybridSpec",
            quantization_spec={**INT4, "group_size": 32},
            adapter_spec=None,
            incoherence_block_size=None,
            incoherence_processing_mode="input_output",
        ),
        "F16",
    ),
    "D4S4": (spec(type="D4S4Spec", layout="input_output"), "BF16"),
}  # fmt: skip
"""A format of each kind, and the element type of the package that it stands in."""


@cache
def stored(label: str, shape: Sizes, positive: bool = False) -> Weight | None:
    """A random matrix; None where the format has none of this shape."""
    form, dtype = FORMATS[label]
    if form.problem(shape) is not None:
        return None
    arrays = form.encode(numbers((label, shape), shape, FLOAT32, positive), dtype, "group_major")
    return Weight(form, arrays, shape, "group_major")


def _matrices(label: str, shape: Sizes, positive: bool = False) -> Weights:
    weight = stored(label, shape, positive)
    assert weight is not None, f"{label} has no matrix of {shape}"
    return (weight,)


def _stored_edges(label: str, edges: tuple[Sizes, ...]) -> tuple[Sizes, ...]:
    return tuple(shape for shape in edges if stored(label, shape[1:]) is not None)


class Product(Operation):
    """`linear` or `readout`; shapes are rows, and rows and columns of the matrix."""

    edges = (
        (1, 1, 16), (5, 3, 48), (4, 32, 64), (3, 33, 80), (2, 65, 144), (129, 31, 256),
        (1, 5, 7), (3, 20, 51),
    )  # fmt: skip
    whole = (4, 32, 256)
    long = (2, 32, 4096)
    largest = (3, 32, 16384)
    takes_no_rows = True

    def __init__(self, operation: str, label: str) -> None:
        self.operation, self.label = operation, label
        self.runs_every_row_alone = label in ("bfloat16", "MLX 4")
        self.edges = _stored_edges(label, self.edges)

    def draw(self, shape: Sizes, dtype: np.dtype, *, positive: bool = False) -> Call:
        rows, height, width = shape
        arrays = {"x": numbers("x", (rows, width), dtype, positive)}
        if self.operation == "linear":
            arrays["biases"] = numbers("biases", (height,), FLOAT32)
        return Call(arrays, _matrices(self.label, (height, width), positive))

    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        (weight,) = weights
        if self.operation == "linear":
            return (backend.linear(given["x"], weight, given["biases"]),)
        return (backend.readout(given["x"], weight),)

    def bound(self, call: Call, wanted: Results, dtype: np.dtype) -> Results:
        """Half units of the sum, relative to the product of both lengths.

        No sum of magnitudes is larger than that, in whatever basis a Hadamard transform adds it up.
        """
        (weight,) = call.weights
        matrix = weight.decode(FLOAT64, np)
        lengths = np.linalg.norm(matrix, axis=1)
        if isinstance(weight.format, HybridSpec):
            lengths = np.full_like(lengths, np.linalg.norm(matrix))
        size = np.linalg.norm(call.arrays["x"].astype(FLOAT64), axis=1)[:, None] * lengths
        sums = lanes(weight.shape[-1]) * half_unit(FLOAT32) * size
        is_rounded = self.operation == "linear"
        return (sums + 1.01 * half_unit(dtype) * np.abs(wanted[0]) * is_rounded + 1e-30,)

    def poisoned(self, call: Call) -> Iterator[Call]:
        x, (weight,) = call.arrays["x"].copy(), call.weights
        x[::2, -1] = np.nan
        yield call.with_arrays(x=x)
        if not isinstance(weight.format, FullPrecisionSpec):
            return
        matrix = weight.arrays["weights"].copy()
        matrix[3, 7], matrix[4, :2], matrix[5, 11] = 0.0, (1.0, -1.0), np.nan
        matrix[6, 13] = -np.inf
        changed = replace(call, weights=(replace(weight, arrays={"weights": matrix}),))
        for place, value in ((7, np.inf), (slice(0, 2), np.inf), (0, -np.inf)):
            x = call.arrays["x"].copy()
            x[::2, place] = value
            yield changed.with_arrays(x=x)


class Lookup(Operation):
    """`embed`; shapes are how many ids, and rows and columns of the table."""

    operation = "embed"
    edges = ((1, 1, 16), (5, 3, 48), (3, 33, 80), (17, 65, 144), (1, 5, 7), (3, 20, 51))
    whole = (4, 32, 256)
    largest = (3, 32, 16384)
    row_arrays = ("ids",)

    def __init__(self, label: str) -> None:
        self.label = label
        self.edges = _stored_edges(label, self.edges)

    def draw(self, shape: Sizes, dtype: np.dtype, *, positive: bool = False) -> Call:
        count, height, width = shape
        ids = (np.arange(count, dtype=np.int32) * 7 + height - 1) % height
        return Call({"ids": ids}, _matrices(self.label, (height, width)), dtype)

    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        (weight,) = weights
        return (backend.embed(weight, given["ids"], dtype),)

    def bound(self, call: Call, wanted: Results, dtype: np.dtype) -> Results:
        """Eight half units of the longest row for decoding and transform, and one rounding."""
        longest = np.linalg.norm(wanted[0], axis=-1, keepdims=True)
        decoded = 8 * half_unit(FLOAT32) * longest
        return (decoded + 1.01 * half_unit(dtype) * np.abs(wanted[0]) + 1e-30,)

    def poisoned(self, call: Call) -> Iterator[Call]:
        (weight,) = call.weights
        if isinstance(weight.format, FullPrecisionSpec):
            table = weight.arrays["weights"].copy()
            table[call.arrays["ids"][0], :3] = np.nan, np.inf, -np.inf
            yield replace(call, weights=(replace(weight, arrays={"weights": table}),))


OPERATIONS: tuple[Operation, ...] = (
    *(Product("readout", label) for label in FORMATS),
    *(Product("linear", label) for label in ("bfloat16", "MLX 4", "Int 8", "Hybrid")),
    *(Lookup(label) for label in FORMATS if label != "Hybrid"),
)
