"""A package on disk as a planned stream: what a quantiser reads from."""

from collections.abc import Iterator
from functools import partial
from threading import Lock

import numpy as np

from masu.specs.formats import FullPrecisionSpec, WeightFormat
from masu.specs.package import Package
from masu.specs.stream import FileRange, Piece, PlannedTensor, Reader
from masu.specs.tensors import ArraySpec, Matrix, Shape


def stream_of(package: Package) -> list[PlannedTensor]:
    """Every tensor in the order of the config; what is not changed is copied as bytes.

    `read` gives what a matrix decodes to. One in full precision is read in rows, a quantised one is
    decoded as a whole and kept until the next one is, so memory is bounded by the largest.
    """
    decoder = _Decoder(package)
    return [
        _planned(decoder, name, entry.shape, package.formats[name])
        if isinstance(entry, Matrix)
        else _planned(decoder, name, entry.shape, None)
        for name, entry in package.config.tensors()
    ]


class _Decoder:
    """Reads matrices, and remembers the last one that it had to decode."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self._lock = Lock()
        self._last: tuple[str, np.ndarray] | None = None

    def stored(self, array: str, start: int, stop: int) -> np.ndarray:
        return self.package.container.read(self.package.dialect.stored_name(array), start, stop)

    def decoded(
        self, name: str, shape: Shape, weight_format: WeightFormat, start: int, stop: int
    ) -> np.ndarray:
        with self._lock:  # encoders read from several threads
            if self._last is None or self._last[0] != name:
                self._last = None
                self._last = name, self._decode(name, shape, weight_format)
            return self._last[1][start:stop]

    def _decode(self, name: str, shape: Shape, weight_format: WeightFormat) -> np.ndarray:
        package = self.package
        suffixes = weight_format.arrays(shape, package.dtype, package.planes)
        arrays = {suffix: package.read(f"{name}.{suffix}") for suffix in suffixes}
        return weight_format.decode(arrays, shape, package.planes, np.float32)


def _planned(
    decoder: _Decoder, name: str, shape: Shape, weight_format: WeightFormat | None
) -> PlannedTensor:
    package = decoder.package
    table = _arrays(package, name, shape, weight_format)
    stored = {array: package.dialect.stored_name(array) for array in table}
    ranges = {array: package.container.range(stored[array]) for array in table}

    def pieces() -> Iterator[tuple[str, Piece]]:
        yield from ranges.items()

    return PlannedTensor(
        name=name,
        format=weight_format,
        shape=shape,
        arrays=table,
        read=_reader(decoder, name, shape, weight_format),
        pieces=pieces,
        copied=_only(list(ranges.values())),
    )


def _arrays(
    package: Package, name: str, shape: Shape, weight_format: WeightFormat | None
) -> dict[str, ArraySpec]:
    """The stored arrays of one tensor, by canonical name."""
    if weight_format is None:
        stored = package.container.tensors[package.dialect.stored_name(name)]
        return {name: ArraySpec(stored.dtype, stored.shape)}
    specs = weight_format.arrays(shape, package.dtype, package.planes)
    return {f"{name}.{suffix}": spec for suffix, spec in specs.items()}


def _only(ranges: list[FileRange]) -> FileRange | None:
    return ranges[0] if len(ranges) == 1 else None


def _reader(
    decoder: _Decoder, name: str, shape: Shape, weight_format: WeightFormat | None
) -> Reader:
    if weight_format is None:
        return partial(decoder.stored, name)
    if isinstance(weight_format, FullPrecisionSpec):
        return partial(decoder.stored, f"{name}.weights")
    return partial(decoder.decoded, name, shape, weight_format)
