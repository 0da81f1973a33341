"""Differences of weights: which there are, their formats and shapes, and how far apart they are."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from masu.comparison.distance import distance
from masu.comparison.entries import Distance, Entry
from masu.comparison.rows import CHUNK_VALUES, MatrixRows
from masu.specs.container import Container
from masu.specs.errors import ContainerError
from masu.specs.package import Package
from masu.specs.stream import FileRange
from masu.specs.tensors import Matrix, Vector

CHUNK = 4 << 20


def tensor_entries(a: Package, b: Package) -> Iterator[Entry]:
    """By canonical name, a matrix as a whole. Equal bytes are never decoded."""
    entries_a, entries_b = dict(a.config.tensors()), dict(b.config.tensors())
    for name in [*entries_a, *(name for name in entries_b if name not in entries_a)]:
        one, other = entries_a.get(name), entries_b.get(name)
        if one is None or other is None:
            owner, package = ("A", a) if other is None else ("B", b)
            entry = one or other
            yield Entry("tensors", name, f"only in {owner}: {_described(package, name, entry)}")
        elif type(one) is type(other):
            yield from _compared(a, b, name, one, other)
        else:
            yield Entry("tensors", name, "a matrix in one, a vector in the other")


def _compared(
    a: Package, b: Package, name: str, one: Matrix | Vector, other: Matrix | Vector
) -> Iterator[Entry]:
    described = _described(a, name, one), _described(b, name, other)
    if one.shape != other.shape:
        yield Entry("tensors", name, f"{described[0]} in A, {described[1]} in B")
        return
    if described[0] == described[1] and _same_bytes(a, b, name, one):
        return
    found = _distance(a, b, name, one, other)
    if described[0] != described[1]:
        yield Entry("tensors", name, f"{described[0]} in A, {described[1]} in B", found)
    elif found != Distance(0.0, 0.0, 0):
        yield Entry("tensors", name, described[0], found)
    elif a.dialect.name == b.dialect.name:
        yield Entry("tensors", name, f"{described[0]}: other bytes for the same values", found)


def _described(package: Package, name: str, entry: Matrix | Vector | None) -> str:
    """Format and shape, as people compare them."""
    if isinstance(entry, Matrix):
        format_ = package.formats[name]
        fields = format_.model_dump(exclude={"type", "layout"})
        said = ", ".join(f"{key} {value}" for key, value in fields.items())
        kind = format_.__class__.__name__.removesuffix("Spec")
        dtype = f" {package.dtype}" if not fields else ""
        return f"{kind}{dtype}{f' ({said})' if said else ''} {list(entry.shape)}"
    dtype = package.dtype if entry is None or entry.dtype is None else entry.dtype
    return f"{dtype} {[] if entry is None else list(entry.shape)}"


def _same_bytes(a: Package, b: Package, name: str, entry: Matrix | Vector) -> bool:
    """Whether every stored array of a tensor is the same in both files."""
    if a.dialect.name != b.dialect.name:
        return False
    ranges = zip(_ranges(a, name, entry), _ranges(b, name, entry), strict=True)
    return all(_equal(*pair) for pair in ranges)


def _ranges(package: Package, name: str, entry: Matrix | Vector) -> list[FileRange]:
    if isinstance(entry, Vector):
        return [package.container.range(package.dialect.stored_name(name))]
    parts = package.dialect.row_parts(package.config).get(name)
    folders = [part.path for part in parts or ()] or [package.dialect.stored_name(name)]
    suffixes = package.formats[name].arrays(entry.shape, package.dtype, package.planes)
    return [package.container.range(f"{at}.{suffix}") for at in folders for suffix in suffixes]


def _equal(a: FileRange, b: FileRange) -> bool:
    if a.length != b.length:
        return False
    if (os.path.realpath(a.path), a.offset) == (os.path.realpath(b.path), b.offset):
        return True
    with a.path.open("rb") as one, b.path.open("rb") as other:
        one.seek(a.offset)
        other.seek(b.offset)
        for start in range(0, a.length, CHUNK):
            count = min(CHUNK, a.length - start)
            read, expected = one.read(count), other.read(count)
            if len(read) != count or len(expected) != count:
                raise _cut_short(a.path if len(read) != count else b.path)
            if read != expected:
                return False
    return True


def _cut_short(path: Path) -> ContainerError:
    return ContainerError(f"{path} was cut short while it was compared")


def _distance(
    a: Package, b: Package, name: str, one: Matrix | Vector, other: Matrix | Vector
) -> Distance:
    if isinstance(one, Matrix) and isinstance(other, Matrix):
        return distance(MatrixRows(a, name, one).chunks(), MatrixRows(b, name, other).chunks())
    return distance(_vector(a, name), _vector(b, name))


def _vector(package: Package, name: str) -> Iterator[np.ndarray]:
    """A plain array, by rows where it has more than one axis."""
    stored = package.dialect.stored_name(name)
    container: Container = package.container
    shape = container.tensors[stored].shape
    if not shape:
        yield container.read(stored)
        return
    width = int(np.prod(shape[1:], dtype=np.int64))
    step = max(CHUNK_VALUES // max(width, 1), 1)
    for start in range(0, shape[0], step):
        yield container.read(stored, start, min(start + step, shape[0])).astype(np.float32)
