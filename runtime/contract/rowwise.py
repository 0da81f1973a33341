"""Norms and rotations: every row by itself."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from masu.runtime.backend import Backend, wide_dtype
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
from masu.specs.blocks.norm import NormalizationConfig


class Norm(Operation):
    """`norm`; shapes are rows and width."""

    operation = "norm"
    edges = ((1, 1), (3, 5), (2, 16), (9, 33), (5, 130))
    whole = (4, 64)
    long = (3, 4096)
    largest = (2, 16416)
    takes_no_rows = True

    def __init__(self, mode: str, subtract_mean: bool, has_biases: bool = True) -> None:
        kind = "layer norm" if subtract_mean else "RMS norm"
        self.label = f"{kind}, {mode}"
        self.has_biases = has_biases
        self.runs_every_row_alone = not subtract_mean
        fields = {"epsilon": 1e-5, "scale_offset": 1.0, "upcast_mode": mode, "has_scale": True}
        fields |= {"subtract_mean": subtract_mean, "has_biases": has_biases}
        self.config = NormalizationConfig.model_validate(fields)

    def draw(self, shape: Sizes, dtype: np.dtype, *, positive: bool = False) -> Call:
        width = shape[1]
        arrays = {
            "x": numbers("x", shape, dtype, positive and not self.config.subtract_mean),
            "scales": numbers("scales", (width,), FLOAT32),
        }
        if self.has_biases:
            arrays["biases"] = numbers("biases", (width,), FLOAT32)
        return Call(arrays)

    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        out = backend.norm(given["x"], self.config, given["scales"], given.get("biases"))
        return (out,)

    def bound(self, call: Call, wanted: Results, dtype: np.dtype) -> Results:
        """The sums', relative to the terms before the mean is taken off; then four roundings."""
        x = call.arrays["x"].astype(FLOAT64)
        centred = x - x.mean(-1, keepdims=True) if self.config.subtract_mean else x
        spread = np.sqrt((centred**2).mean(-1, keepdims=True) + self.config.epsilon)
        scales = np.abs(call.arrays["scales"].astype(FLOAT64) + 1.0)
        biases = np.abs(call.arrays.get("biases", np.zeros(1)).astype(FLOAT64))
        size = (np.abs(x) + np.abs(x).mean(-1, keepdims=True)) / spread * scales
        sums = lanes(x.shape[-1]) * half_unit(FLOAT32) * size
        return (sums + 4 * half_unit(dtype) * (size + biases) + 1e-30,)

    def poisoned(self, call: Call) -> Iterator[Call]:
        for value in (np.nan, np.inf, -np.inf):
            x = call.arrays["x"].copy()
            x[::2, -1] = value
            yield call.with_arrays(x=x)
        x = call.arrays["x"].copy()
        x[0, :2] = np.inf, -np.inf
        yield call.with_arrays(x=x)


class Rotation(Operation):
    """`rotate`; shapes are tokens, heads, width and turned pairs."""

    operation = "rotate"
    label = ""
    edges = ((1, 1, 2, 1), (3, 2, 10, 3), (5, 3, 40, 20), (2, 1, 34, 17))
    whole = (4, 2, 64, 32)
    row_arrays = ("x", "cosines", "sines")

    def draw(self, shape: Sizes, dtype: np.dtype, *, positive: bool = False) -> Call:
        tokens, heads, width, pairs = shape
        angles = numbers("angles", (tokens, pairs), FLOAT64)
        wide = wide_dtype(dtype)
        return Call(
            {
                "x": numbers("x", (tokens, heads, width), dtype),
                "cosines": np.cos(angles).astype(wide),
                "sines": np.sin(angles).astype(wide),
            }
        )

    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        return (backend.rotate(given["x"], given["cosines"], given["sines"]),)

    def bound(self, call: Call, wanted: Results, dtype: np.dtype) -> Results:
        """Two products and a sum, of numbers not longer than the pair; then one rounding."""
        largest = np.abs(call.arrays["x"].astype(FLOAT64)).max(initial=0.0)
        exact = 6 * half_unit(FLOAT32) * largest
        return (exact + 1.01 * half_unit(dtype) * np.abs(wanted[0]) + 1e-30,)

    def poisoned(self, call: Call) -> Iterator[Call]:
        for value in (np.nan, np.inf, -np.inf):
            x = call.arrays["x"].copy()
            x[0, 0, 0] = x[-1, -1, -1] = value
            yield call.with_arrays(x=x)


class OfWideRows(Operation):
    """An operation over the last axis of wide rows; shapes are rows and width."""

    edges = ((1, 1), (3, 5), (2, 16), (9, 33), (5, 130))
    whole = (4, 64)
    largest = (2, 16416)
    label = ""

    def draw(self, shape: Sizes, dtype: np.dtype, *, positive: bool = False) -> Call:
        return Call({"x": numbers("x", shape, wide_dtype(dtype), positive)})

    def poisoned(self, call: Call) -> Iterator[Call]:
        for value in (np.nan, np.inf, -np.inf):
            x = call.arrays["x"].copy()
            x[::2, -1] = value
            yield call.with_arrays(x=x)


class Unit(OfWideRows):
    """`unit`."""

    operation = "unit"
    long = (3, 4096)

    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        return (backend.unit(given["x"], 1e-6),)

    def bound(self, call: Call, wanted: Results, dtype: np.dtype) -> Results:
        units = lanes(call.arrays["x"].shape[-1]) * half_unit(FLOAT32)
        return (units * np.abs(wanted[0]) + 1e-30,)


class Softmax(OfWideRows):
    """`softmax` without sinks."""

    operation = "softmax"
    long = (3, 4096)

    def draw(self, shape: Sizes, dtype: np.dtype, *, positive: bool = False) -> Call:
        """Equal scores where the shares shall add up."""
        x = numbers("x", (shape[0], 1, shape[1]), wide_dtype(dtype))
        return Call({"x": np.zeros_like(x) if positive else x})

    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        return (backend.softmax(given["x"], None),)

    def bound(self, call: Call, wanted: Results, dtype: np.dtype) -> Results:
        """The sum's; and of each exponential, whose argument was rounded."""
        x = call.arrays["x"]
        units = lanes(x.shape[-1]) + 4 * float(np.ptp(x)) + 8
        return (units * half_unit(FLOAT32) * wanted[0] + 1e-30,)

    def poisoned(self, call: Call) -> Iterator[Call]:
        for value in (np.nan, np.inf, -np.inf):
            x = call.arrays["x"].copy()
            x[::2, :, -1] = value
            yield call.with_arrays(x=x)


class Scaled(OfWideRows):
    """`scaled`, with a factor for every row."""

    operation = "scaled"
    row_arrays = ("x", "factors")

    def draw(self, shape: Sizes, dtype: np.dtype, *, positive: bool = False) -> Call:
        rows, width = shape
        x = numbers("x", (rows, 1, width), wide_dtype(dtype))
        return Call({"x": x, "factors": numbers("factors", (rows, 1), wide_dtype(dtype))})

    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        return (backend.scaled(given["x"], given["factors"]),)

    def bound(self, call: Call, wanted: Results, dtype: np.dtype) -> Results:
        return (half_unit(FLOAT32) * np.abs(wanted[0]) + 1e-30,)

    def poisoned(self, call: Call) -> Iterator[Call]:
        for value in (np.nan, np.inf, -np.inf):
            x = call.arrays["x"].copy()
            x[::2, :, -1] = value
            yield call.with_arrays(x=x)


class Argmax(OfWideRows):
    """`argmax`, of rows that have their largest value twice."""

    operation = "argmax"

    def draw(self, shape: Sizes, dtype: np.dtype, *, positive: bool = False) -> Call:
        call = super().draw(shape, dtype)
        x = call.arrays["x"]
        x[:, -1] = x[:, shape[1] // 2] = x.max(-1, initial=0.0) + 1
        return call

    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        return (backend.argmax(given["x"]),)

    def bound(self, call: Call, wanted: Results, dtype: np.dtype) -> Results:
        return (np.zeros(wanted[0].shape),)


class Largest(Argmax):
    """`largest`: the first few places, of rows that have their largest value twice."""

    operation = "largest"

    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        return (backend.largest(given["x"], min(4, given["x"].shape[-1])),)


OPERATIONS: tuple[Operation, ...] = (
    Norm("full_layer", subtract_mean=False, has_biases=False),
    Norm("only_normalization", subtract_mean=False),
    Norm("full_layer", subtract_mean=True),
    Norm("only_normalization", subtract_mean=True),
    Rotation(),
    Unit(),
    Softmax(),
    Argmax(),
    Largest(),
    Scaled(),
)
