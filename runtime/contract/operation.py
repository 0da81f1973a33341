"""An operation as the gates see it: calls with shapes at the edges of tiles, a reference, a bound.

The reference is the same operation of the numpy backend, on the same numbers in float64.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar
from zlib import crc32

import ml_dtypes
import numpy as np

from masu.runtime.backend import Backend
from masu.runtime.backends.numpy import NumpyBackend
from masu.runtime.weights import Weight

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
BFLOAT16, FLOAT16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)

Results = tuple[np.ndarray, ...]
Sizes = tuple[int, ...]
Given = Mapping[str, Any]
Arrays = tuple[Any, ...]
Weights = tuple[Weight, ...]

TALLEST = 1024
"""Rows of the tallest calls."""


@dataclass(frozen=True)
class Call:
    """One call of an operation.

    Attributes:
        arrays: its operands in memory, by the operation's names for them.
        weights: the stored matrices, or what a backend made of them (`prepared`).
        dtype: of the activations that come out.
        in_place: a backend that can takes the arrays as they are, and not copies of them.
    """

    arrays: Mapping[str, np.ndarray]
    weights: tuple[Weight, ...] = ()
    dtype: np.dtype = FLOAT32
    in_place: bool = False

    def with_arrays(self, **arrays: np.ndarray) -> "Call":
        return replace(self, arrays={**self.arrays, **arrays})

    def given(self, backend: Backend) -> dict[str, Any]:
        arrays = {n: v if self.in_place else v.copy() for n, v in self.arrays.items()}
        return {name: backend.array(values) for name, values in arrays.items()}


def half_unit(dtype: np.dtype) -> float:
    """The most by which rounding to a dtype changes a number, relative to it."""
    return float(ml_dtypes.finfo(dtype).eps) / 2


def lanes(width: int) -> float:
    """Half units of a float32 sum of `width` products.

    Sixteen lanes add `width / 16` products each, then four levels are added; the other four are
    for the decoding of weights.
    """
    return width / 16 + 8


class Operation(ABC):
    """One way in which an operation of `Backend` is called.

    The first number of a shape is how many rows there are (tokens, mostly).

    Attributes:
        operation: its name in `Backend`.
        label: what tells it from other ways to call the same operation.
        edges: shapes one below, at and above the edges of tiles.
        whole: a shape of whole tiles only.
        long: a shape whose sums are long; None where nothing is summed.
        largest: a shape that needs more scratch memory than any other; None without scratch.
        takes_no_rows: a call with no rows at all is served too.
        runs_every_row_alone: and not only some of them.
        rounds_between: where rows that meet codes are rounded, it rounds one that it has computed:
            nobody can say which of two steps a sum must fall on.
    """

    operation: str
    label: str
    edges: tuple[Sizes, ...] = ()
    whole: Sizes = ()
    long: Sizes | None = None
    largest: Sizes | None = None
    takes_no_rows: bool = False
    runs_every_row_alone: bool = False
    rounds_between: bool = False
    row_arrays: ClassVar[tuple[str, ...]] = ("x",)

    @abstractmethod
    def draw(self, shape: Sizes, dtype: np.dtype, *, positive: bool = False) -> Call:
        """A call with the same random numbers at every time.

        Args:
            dtype: of the activations.
            positive: sums of terms of one sign, in which a narrow accumulator comes to a halt.
        """

    @abstractmethod
    def compute(self, backend: Backend, given: Given, weights: Weights, dtype: Any) -> Arrays:
        """The operation's outputs.

        Args:
            given: the backend's own arrays.
            weights: as the backend holds them.
            dtype: of the activations that come out, where nothing else says it.
        """

    def run(self, backend: Backend, call: Call, *, is_compiled: bool = True) -> Results:
        """What a backend makes of a call that was `prepared` for it, compiled as in a model."""
        given, config = call.given(backend), (self, call.dtype)
        if is_compiled:
            out = backend.compile(_compute, config)(given, call.weights)
        else:
            out = _compute(backend, config, given, call.weights)
        return tuple(backend.to_numpy(each) for each in out)

    @abstractmethod
    def bound(self, call: Call, wanted: Results, dtype: np.dtype) -> Results:
        """How far each number may be from the reference."""

    @abstractmethod
    def poisoned(self, call: Call) -> Iterator[Call]:
        """The same call with infinities and NaN in it."""

    def rows(self, call: Call, start: int, stop: int) -> Call:
        """The call for some of its rows."""
        return call.with_arrays(**{name: call.arrays[name][start:stop] for name in self.row_arrays})

    def piece(self, backend: Backend, call: Call, start: int, stop: int) -> np.ndarray:
        """Outputs of the rows `start .. stop`, run without the rows after them."""
        return self.run(backend, self.rows(call, start, stop))[0]

    def rows_alone(self, count: int) -> Sequence[int]:
        """Which of so many rows are also run one by one."""
        if self.runs_every_row_alone:
            return range(count)
        return (*range(0, min(count, 128), 3), *range(128, count, 37))

    @property
    def tall(self) -> Sizes:
        """`whole`, with as many rows as there may be."""
        return (TALLEST, *self.whole[1:])

    def wanted(self, call: Call, reference: Backend) -> Results:
        """The reference's answer to a call that no backend was prepared for."""
        wide = {
            name: values if values.dtype.kind in "iu" else values.astype(FLOAT64)
            for name, values in call.arrays.items()
        }
        with np.errstate(all="ignore"):
            given = prepared(reference, replace(call, arrays=wide, dtype=FLOAT64), FLOAT64)
            return tuple(np.array(each) for each in self.run(reference, given))


def _compute(
    backend: Backend, config: tuple[Operation, np.dtype], given: Given, weights: Weights
) -> Arrays:
    operation, dtype = config
    return operation.compute(backend, given, weights, dtype)


@cache
def reference() -> Backend:
    return NumpyBackend()


def prepared(backend: Backend, call: Call, dtype: np.dtype) -> Call:
    """The call with its matrices as the backend holds them, for activations of `dtype`."""
    return replace(call, weights=tuple(backend.hold(each, dtype) for each in call.weights))


def numbers(seed: object, shape: Sizes, dtype: np.dtype, positive: bool = False) -> np.ndarray:
    """Normal numbers; of the same size but one sign where they shall be positive."""
    values = np.random.default_rng(crc32(repr(seed).encode())).standard_normal(shape)
    return (np.abs(values) + 0.5 if positive else values).astype(dtype)
