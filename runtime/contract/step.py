"""Activation functions, gates, angles, and the rows of a cache."""

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
    numbers,
)
from masu.runtime.contract.rowwise import OfWideRows
from masu.runtime.weights import Weight
from masu.specs.blocks.activation import GELU, Activation, Identity, SiLU, SquaredReLU
from masu.specs.blocks.dense_mlp import Clipping
from masu.specs.formats.full_precision import FullPrecisionSpec

ROUNDINGS = 16
"""Of one function: an exponential's 2 units, its argument's, and those of what surrounds it."""


class Activate(OfWideRows):
    """`activate`; arguments lie where the function bends."""

    operation = "activate"
    takes_no_rows = True

    def __init__(self, activation: Activation) -> None:
        self.activation = activation
        self.label = activation.type

    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        return (backend.activate(given["x"], self.activation),)

    def bound(self, call: Call, wanted: Results, dtype: np.dtype) -> Results:
        """Relative to the argument: a GELU's tail is what is left of 1 - 1."""
        size = np.abs(call.arrays["x"].astype(FLOAT64))
        size = size**2 if isinstance(self.activation, SquaredReLU) else size
        return (ROUNDINGS * half_unit(FLOAT32) * size + 1e-30,)

    def poisoned(self, call: Call) -> Iterator[Call]:
        # An infinity times a zero share is NaN in plain arithmetic, too, but only for some of them.
        x = call.arrays["x"].copy()
        x[::2, -1] = np.nan
        yield call.with_arrays(x=x)


class OfExponential(OfWideRows):
    """`sigmoid` or `softplus`, whose exponential knows its argument to a half unit only."""

    def __init__(self, operation: str) -> None:
        self.operation = operation

    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        return (getattr(backend, self.operation)(given["x"]),)

    def bound(self, call: Call, wanted: Results, dtype: np.dtype) -> Results:
        units = ROUNDINGS + 2 * np.abs(call.arrays["x"].astype(FLOAT64))
        return (units * half_unit(FLOAT32) * wanted[0] + 1e-30,)


class Picked(OfWideRows):
    """`picked`: two places of each row, the first and one that moves along."""

    operation = "picked"
    row_arrays = ("x", "places")

    def draw(self, shape: Sizes, dtype: np.dtype, *, positive: bool = False) -> Call:
        call, (rows, width) = super().draw(shape, dtype), shape
        places = np.stack([np.zeros(rows), np.arange(rows) % width], axis=1)
        return call.with_arrays(places=places.astype(np.int32))

    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        return (backend.picked(given["x"], given["places"]),)

    def bound(self, call: Call, wanted: Results, dtype: np.dtype) -> Results:
        return (np.zeros(wanted[0].shape),)


class SoftCap(OfWideRows):
    """`soft_cap`, at twice the size of its arguments."""

    operation = "soft_cap"

    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        return (backend.soft_cap(given["x"], 2.0),)

    def bound(self, call: Call, wanted: Results, dtype: np.dtype) -> Results:
        """Relative to the cap: a small tangent is what is left of 1 - 1."""
        return (np.full(wanted[0].shape, ROUNDINGS * half_unit(FLOAT32) * 2.0),)


class GatedMLP(Operation):
    """`gated_mlp` between matrices that change nothing: shapes are rows and width."""

    operation = "gated_mlp"
    edges = ((1, 1), (3, 5), (2, 16), (9, 33), (5, 96))
    whole = (4, 64)
    largest = (2, 1040)

    def __init__(self, activation: Activation, clipping: Clipping | None) -> None:
        self.activation, self.clipping = activation, clipping
        self.label = activation.type if clipping is None else f"{activation.type}, clipped"

    def draw(self, shape: Sizes, dtype: np.dtype, *, positive: bool = False) -> Call:
        width = shape[1]
        same = np.eye(width, dtype=np.float32)
        return Call(
            {"x": numbers("x", shape, dtype, positive)},
            (_full(np.concatenate([same, same])), _full(same)),
            dtype,
        )

    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        up, down = weights
        x = given["x"]
        clips = self.clipping, self.clipping
        return (backend.gated_mlp(x, up, None, down, None, self.activation, *clips),)

    def bound(self, call: Call, wanted: Results, dtype: np.dtype) -> Results:
        """Of the function, relative to the product's size; the gate and the product are rounded."""
        size = np.abs(call.arrays["x"].astype(FLOAT64)) ** 2
        exact = (ROUNDINGS + 8) * half_unit(FLOAT32) * size
        return (exact + 4 * half_unit(dtype) * size + 1e-30,)

    def poisoned(self, call: Call) -> Iterator[Call]:
        x = call.arrays["x"].copy()
        x[::2, -1] = np.nan
        yield call.with_arrays(x=x)


def _full(values: np.ndarray) -> Weight:
    format_ = FullPrecisionSpec(type="FullPrecisionSpec", layout="output_input")
    return Weight(format_, {"weights": values}, values.shape, "group_major")


class Rotations(Operation):
    """`rotations`; shapes are tokens and pairs. Positions are those of a long run."""

    operation = "rotations"
    label = ""
    edges = ((1, 1), (3, 5), (2, 16), (9, 33))
    whole = (4, 32)
    row_arrays = ("positions",)

    def draw(self, shape: Sizes, dtype: np.dtype, *, positive: bool = False) -> Call:
        tokens, pairs = shape
        wide = wide_dtype(dtype)
        return Call(
            {
                "positions": np.arange(4000, 4000 + tokens, dtype=np.int32),
                "frequencies": (10000.0 ** -(np.arange(pairs) / pairs)).astype(wide),
                "factor": np.asarray(1.25, wide),
            }
        )

    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        turned = backend.rotations(given["frequencies"], given["factor"], given["positions"])
        return tuple(turned)

    def bound(self, call: Call, wanted: Results, dtype: np.dtype) -> Results:
        """The angle is rounded once, and so is what comes of it."""
        positions = call.arrays["positions"].astype(FLOAT64)[:, None]
        angles = positions * call.arrays["frequencies"].astype(FLOAT64)
        error = half_unit(FLOAT32) * (np.abs(angles) + 2) * 1.25
        return (error, error)

    def poisoned(self, call: Call) -> Iterator[Call]:
        frequencies = call.arrays["frequencies"].copy()
        frequencies[-1] = np.nan
        yield call.with_arrays(frequencies=frequencies)


class Write(Operation):
    """`write`; shapes are tokens, groups, capacity and width. The last rows may be past the end."""

    operation = "write"
    label = ""
    edges = ((1, 1, 4, 1), (3, 2, 8, 5), (5, 1, 6, 16), (9, 3, 16, 33))
    whole = (4, 2, 1030, 16)
    position = 2

    def draw(self, shape: Sizes, dtype: np.dtype, *, positive: bool = False) -> Call:
        tokens, groups, capacity, width = shape
        return Call(
            {
                "x": numbers("x", (tokens, groups, width), dtype),
                "buffer": numbers("buffer", (groups, capacity, width), dtype),
            }
        )

    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        """The rows where they now stand, and the whole cache."""
        x = given["x"]
        rows, position = backend.xp.swapaxes(x, 0, 1), np.int32(self.position)
        written = backend.write(given["buffer"], rows, position)
        here = written[:, self.position : self.position + x.shape[0]]
        return backend.xp.swapaxes(here, 0, 1), written

    def bound(self, call: Call, wanted: Results, dtype: np.dtype) -> Results:
        return tuple(np.zeros(each.shape) for each in wanted)

    def poisoned(self, call: Call) -> Iterator[Call]:
        for value in (np.nan, np.inf, -np.inf):
            x = call.arrays["x"].copy()
            x[0, 0, 0] = value
            yield call.with_arrays(x=x)


FUNCTIONS: tuple[Activation, ...] = (
    SiLU(type="SiLU", alpha=1.0),
    SiLU(type="SiLU", alpha=1.702),
    GELU(type="GELU", approximate=True),
    GELU(type="GELU", approximate=False),
    SquaredReLU(type="SquaredReLU"),
    Identity(type="Identity"),
)

OPERATIONS: tuple[Operation, ...] = (
    *map(Activate, FUNCTIONS),
    OfExponential("sigmoid"),
    OfExponential("softplus"),
    Picked(),
    SoftCap(),
    *(GatedMLP(function, None) for function in FUNCTIONS),
    GatedMLP(SiLU(type="SiLU", alpha=1.702), (-0.5, 0.75)),
    Rotations(),
    Write(),
)
