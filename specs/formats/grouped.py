"""Formats that keep each element as a code, with parameters for each group of columns.

The steps from values to stored arrays stand apart, so that a method may put something else in the
place of one: `fit` chooses parameters, `codes` rounds to them, `values` reads back, `store` lays
out the arrays. Codes are chosen against parameters as they are stored, rounded to their dtype.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from masu.specs.dtypes import as_float32
from masu.specs.formats.base import Format, Planes
from masu.specs.formats.ladder import Ladder, Steps
from masu.specs.formats.native import encoders
from masu.specs.formats.packing import pack
from masu.specs.formats.planes import ROW_MULTIPLE, GroupPlane, group_problem
from masu.specs.tensors import Layout, Shape

Parameters = TypeVar("Parameters", bound=tuple)

Fit: TypeAlias = Callable[[np.ndarray, str, np.ndarray | None], Any]
"""Groups, the model's dtype and what `whole` gave, to the parameters of a format."""

CHUNK = 1 << 16
"""Elements encoded at a time: 256 KiB of float32, so that the temporaries of a step stay in a
core's own cache. No value depends on it."""

COMPILED = 4
"""So many times as much where compiled code, which needs no temporaries, does most of it."""

_ZERO = np.float32(0)


class GroupedFormat(Format):
    """`[..., rows, columns]` as codes, in groups `[..., rows, groups, group_size]`.

    The parameters of a format are a NamedTuple of arrays `[..., rows, groups]`. Values are finite
    and below 2 ** 126, so that spans are finite too: whoever calls has refused all others. Each
    group is encoded by itself (with what `whole` says of the matrix), so chunks of rows give the
    bytes of the whole matrix.
    """

    if TYPE_CHECKING:  # Fields of every subclass; declared here they would be written first.
        bits: Any
        group_size: Any
        layout: Layout

    @property
    def stored_layout(self) -> Layout:
        return self.layout

    @property
    def row_multiple(self) -> int | None:
        return ROW_MULTIPLE

    def problem(self, shape: Shape) -> str | None:
        return group_problem(shape, self.group_size)

    def whole(self, values: np.ndarray, dtype: str) -> np.ndarray | None:
        """What all groups of each matrix share, `[..., 1, 1]`; None where groups share nothing."""
        return None

    @abstractmethod
    def fit(self, groups: np.ndarray, dtype: str, whole: np.ndarray | None) -> Any:
        """Parameters for groups `[..., group_size]`, rounded as they are stored.

        `dtype` is the model's (`"BF16"`, ...); `whole` is what `whole()` gave.
        """

    @abstractmethod
    def codes(self, groups: np.ndarray, parameters: Any) -> np.ndarray:
        """The nearest code of each value: uint8, the shape of `groups`."""

    @abstractmethod
    def values(self, codes: np.ndarray, parameters: Any) -> np.ndarray:
        """What the codes stand for: float32, by the operations of `decode`."""

    @property
    def ladder(self) -> Ladder | None:
        """The levels that codes name, of a format whose groups only scale them."""
        return None

    def steps(self, parameters: Any) -> Steps:
        """How groups scale the ladder; only where there is one."""
        raise NotImplementedError

    @abstractmethod
    def planes(
        self, parameters: Any, plane: GroupPlane, dtype: str, lead: Shape
    ) -> dict[str, np.ndarray]:
        """The stored arrays of the parameters, by suffix."""

    def grouped(self, values: np.ndarray) -> np.ndarray:
        """The groups of a matrix, contiguous: `[..., rows, groups, group_size]`."""
        groups = values.reshape(*values.shape[:-1], -1, self.group_size)
        if groups.dtype != np.float32:
            groups = as_float32(groups)
        return np.ascontiguousarray(groups)

    def store(
        self, codes: np.ndarray, parameters: Any, shape: Shape, dtype: str, planes: Planes
    ) -> dict[str, np.ndarray]:
        """The arrays of codes `[..., rows, groups, group_size]` and their parameters."""
        packed = pack(codes.reshape(shape), self.bits)
        return self.store_packed(packed, parameters, shape, dtype, planes)

    def encode(self, values: np.ndarray, dtype: str, planes: Planes) -> dict[str, np.ndarray]:
        """Values of other floating dtypes become float32 chunk by chunk, without a copy of all."""
        return self.encode_with(self.fit, values, dtype, planes)

    def encode_with(
        self, fit: Fit, values: np.ndarray, dtype: str, planes: Planes
    ) -> dict[str, np.ndarray]:
        """`encode` with parameters from another function; `store` rounds them to their dtype."""
        packed: list[np.ndarray] = []
        parameters: list[Any] = []
        whole = self.whole(values, dtype)
        size = CHUNK * COMPILED if encoders.serves(self.ladder, self.group_size) else CHUNK
        for index in np.ndindex(values.shape[:-2]):
            shared = None if whole is None else whole[index]
            for rows in _chunks(values[index], size):
                groups = self.grouped(rows)
                found = fit(groups, dtype, shared)
                packed.append(pack(self.codes(groups, found).reshape(rows.shape), self.bits))
                parameters.append(found)
        lead = values.shape[:-1]
        weights = np.concatenate(packed).reshape(*lead, -1)
        return self.store_packed(weights, _joined(parameters, lead), values.shape, dtype, planes)

    def store_packed(
        self, weights: np.ndarray, parameters: Any, shape: Shape, dtype: str, planes: Planes
    ) -> dict[str, np.ndarray]:
        """As `store`, of codes that are packed already."""
        plane = GroupPlane.of(shape, self.group_size, self.layout, planes)
        return {"weights": weights, **self.planes(parameters, plane, dtype, shape[:-2])}


def extremes(groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest value of each group `[..., group_size]`, no zero negative.

    numpy is slow at many short reductions: turned, they are a few long element-wise ones. What is
    turned are runs of four values, as if they were one number of 16 bytes.
    """
    if groups.shape[-1] % 4:
        return groups.min(-1) + _ZERO, groups.max(-1) + _ZERO
    runs = groups.reshape(-1, groups.shape[-1]).view(np.complex128)
    turned = np.ascontiguousarray(runs.T).view(np.float32)
    shape = groups.shape[:-1]
    lowest, highest = (_across_runs(each, turned) for each in (np.minimum, np.maximum))
    return lowest.reshape(shape), highest.reshape(shape)


def largest_magnitude(groups: np.ndarray) -> np.ndarray:
    """That of each group `[..., group_size]`."""
    lowest, highest = extremes(groups)
    return np.maximum(-lowest, highest)


def _across_runs(operation: np.ufunc, turned: np.ndarray) -> np.ndarray:
    """One value for every four columns of `[runs, groups * 4]`. Minus zero becomes zero."""
    first, second, third, fourth = operation.reduce(turned, axis=0).reshape(-1, 4).T
    return operation(operation(first, second), operation(third, fourth)) + _ZERO


def of_lowest_error(
    spec: GroupedFormat, groups: np.ndarray, candidates: Iterable[Parameters]
) -> Parameters:
    """Group by group the parameters that leave the smallest squared error, the first on ties."""
    ladder = spec.ladder
    if ladder is not None and encoders.serves(ladder, groups.shape[-1]):
        tried = list(candidates)
        steps = [spec.steps(parameters) for parameters in tried]
        return _chosen(tried, encoders.lowest_error(groups, ladder, steps))
    remaining = iter(candidates)
    best = next(remaining)
    least = squared_error(spec, groups, best)
    for candidate in remaining:
        error = squared_error(spec, groups, candidate)
        is_better = error < least
        least = np.where(is_better, error, least)
        pairs = zip(candidate, best, strict=True)
        best = type(best)(*(np.where(is_better, new, old) for new, old in pairs))
    return best


def _chosen(tried: Sequence[Parameters], chosen: np.ndarray) -> Parameters:
    """Of each field, in each group, that of the candidate of this index."""
    fields = (np.stack(field) for field in zip(*tried, strict=True))
    index = chosen[None].astype(np.intp)
    return type(tried[0])(*(np.take_along_axis(field, index, 0)[0] for field in fields))


def squared_error(spec: GroupedFormat, groups: np.ndarray, parameters: Any) -> np.ndarray:
    """The squared distance of each group from its codes, over the group's largest magnitude.

    The division keeps squares in range; it changes no comparison within a group.
    """
    distance = spec.values(spec.codes(groups, parameters), parameters) - groups
    largest = np.abs(groups).max(-1, keepdims=True)
    with np.errstate(over="ignore"):  # what is out of range is worse than anything
        squares = np.square(distance / np.where(largest == 0, np.float32(1), largest))
    return np.ascontiguousarray(squares).sum(-1)


def _chunks(matrix: np.ndarray, elements: int) -> Iterator[np.ndarray]:
    """Runs of rows, of about so many elements each."""
    rows, columns = matrix.shape
    size = max(elements // columns, 1)
    for start in range(0, rows, size):
        yield matrix[start : start + size]


def _joined(chunks: Sequence[Any], lead: Shape) -> Any:
    """The parameters of all rows: each `[..., rows, groups]`."""
    fields = zip(*chunks, strict=True)
    return type(chunks[0])(*(np.concatenate(field).reshape(*lead, -1) for field in fields))
