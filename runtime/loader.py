"""Hands the tensors of a package to the blocks that ask for them, and leaves none unread.

Blocks ask by name and shape, of their own account: what they expect is not taken from the
package's table of tensors, so that the two are checked against each other at every load.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from masu.runtime.backend import Array, Backend, wide_dtype
from masu.runtime.weights import Weight
from masu.specs.dtypes import dtype_name
from masu.specs.errors import TensorError
from masu.specs.formats import WeightFormat
from masu.specs.formats.base import Planes
from masu.specs.formats.full_precision import FullPrecisionSpec
from masu.specs.model import ModelConfig
from masu.specs.tensors import ArraySpec, Layout, Shape


class TensorSource(Protocol):
    """What a model is loaded from: a package, or anything that can name and read its tensors."""

    @property
    def config(self) -> ModelConfig: ...

    @property
    def dtype(self) -> str:
        """The type of the model's parameters, by its name in the file (`BF16`)."""
        ...

    @property
    def planes(self) -> Planes: ...

    @property
    def formats(self) -> Mapping[str, WeightFormat]:
        """The weight format of every matrix, by its path."""
        ...

    def tensors(self) -> Mapping[str, ArraySpec]:
        """Every stored array, by its full name."""
        ...

    def read(self, name: str) -> np.ndarray:
        """One stored array."""
        ...


@dataclass
class _Account:
    """What has been read, and what was wrong with it; shared by all loaders of one load."""

    stored: Mapping[str, ArraySpec]
    formats: Mapping[str, WeightFormat]
    read: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)


class Loader:
    """The tensors below one prefix, for one backend and one dtype of activations.

    After the first problem nothing more is read: every further tensor is checked only, so that
    `finish` can name all problems at once.
    """

    def __init__(
        self,
        source: TensorSource,
        backend: Backend,
        dtype: np.dtype,
        *,
        on_matrix: Callable[[str, Weight], None] | None = None,
        prefix: str = "",
        account: _Account | None = None,
    ) -> None:
        """`on_matrix` is told of every matrix, by its path; the last two are for `under`."""
        self._source = source
        self._backend = backend
        self._dtype = dtype
        self._on_matrix = on_matrix
        self._prefix = prefix
        self._account = account or _Account(source.tensors(), source.formats)

    def under(self, name: str) -> "Loader":
        """The same loader, one level down."""
        prefix = f"{self._prefix}{name}."
        return Loader(
            self._source,
            self._backend,
            self._dtype,
            on_matrix=self._on_matrix,
            prefix=prefix,
            account=self._account,
        )

    def matrix(
        self,
        name: str,
        rows: int,
        columns: int,
        layout: Layout = "output_input",
        *,
        experts: int | None = None,
    ) -> Weight:
        """A weight matrix `[rows, columns]` as stored, held as the backend wants it.

        With `experts`, one for each of them: `[experts, rows, columns]`.
        """
        path = self._prefix + name
        shape = (rows, columns) if experts is None else (experts, rows, columns)
        weight_format = self._account.formats.get(path)
        if weight_format is None:
            self._complain(f"{path}: no weight format, expected a matrix {list(shape)}")
            return _nothing(shape, layout)
        if weight_format.stored_layout != layout:
            found = weight_format.stored_layout
            self._complain(f"{path}: layout {layout} expected, found {found}")
        if problem := weight_format.problem(shape):
            self._complain(f"{path}: {problem}")
            return _nothing(shape, layout)
        expected = weight_format.arrays(shape, self._source.dtype, self._source.planes)
        read = self._reader()
        arrays = {
            suffix: self._read(f"{path}.{suffix}", spec, read) for suffix, spec in expected.items()
        }
        weight = Weight(weight_format, arrays, shape, self._source.planes)
        if self._account.problems:
            return weight
        held = self._backend.hold(weight, self._dtype)
        if self._on_matrix is not None:
            self._on_matrix(path, held)
        return held

    def _reader(self) -> Callable[[str], np.ndarray]:
        """How matrices are read: in the mapped file, for a backend that uses them as stored."""
        in_place = getattr(self._source, "view", None) if self._backend.reads_in_place else None
        return in_place or self._source.read

    def vector(self, name: str, shape: Shape, dtype: str | None = None) -> Array:
        """A tensor stored under its own name, widened; `dtype` None means the model's."""
        spec = ArraySpec(dtype or self._source.dtype, shape)
        values = self._read(self._prefix + name, spec, self._source.read)
        return self._backend.array(values.astype(wide_dtype(self._dtype)))

    def check(self) -> None:
        """Raise the problems found so far.

        Raises:
            TensorError: tensors are missing, or are not what the blocks expect.
        """
        self._raise(self._account.problems)

    def finish(self) -> None:
        """Demand that every tensor was as expected, and was read.

        Raises:
            TensorError: names all that were not, and all that no block has asked for.
        """
        unread = sorted(set(self._account.stored) - self._account.read)
        strays = [f"{name}: {self._account.stored[name]}, which no block reads" for name in unread]
        self._raise([*self._account.problems, *strays])

    def _raise(self, problems: list[str]) -> None:
        if problems:
            message = "model.safetensors is not what the blocks of config.json ask for"
            raise TensorError(message, problems=problems)

    def _read(
        self, name: str, expected: ArraySpec, read: Callable[[str], np.ndarray]
    ) -> np.ndarray:
        self._account.read.add(name)
        found = self._account.stored.get(name)
        if found != expected:
            self._complain(f"{name}: {expected} expected, found {found or 'no such tensor'}")
        if self._account.problems:
            return np.broadcast_to(np.float32(0), expected.shape)
        values = read(name)
        actual = ArraySpec(dtype_name(values.dtype), values.shape)
        if actual != expected:
            self._complain(f"{name}: {expected} expected, but reading it gives {actual}")
        return values

    def _complain(self, problem: str) -> None:
        self._account.problems.append(problem)


def _nothing(shape: Shape, layout: Layout) -> Weight:
    """Stands for a matrix that cannot be read, until `check` raises."""
    plain = FullPrecisionSpec(type="FullPrecisionSpec", layout=layout)
    return Weight(plain, {}, shape, "group_major")
