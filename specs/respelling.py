"""A package as the contents of one in another dialect: every value stays, its spelling changes."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from masu.specs.dialect import Dialect
from masu.specs.formats import WeightFormat
from masu.specs.model import ModelConfig
from masu.specs.package import TOKENIZER, Package
from masu.specs.package_writer import PackageContents
from masu.specs.plane_change import changes, reordered
from masu.specs.row_parts import row_axis
from masu.specs.stream import Piece, PlannedTensor
from masu.specs.tensors import ArraySpec, Entry, Matrix


def respelled(package: Package, config: ModelConfig, dialect: Dialect) -> PackageContents:
    """What to write so that the package is in `dialect`; no tensor is read yet.

    Args:
        config: that of the package, but for what the other dialect has no words for.
    """
    tokenizer = package.path / TOKENIZER
    return PackageContents(
        config=config,
        stream=[_planned(package, dialect, *entry) for entry in package.config.tensors()],
        tokenizer=tokenizer.read_bytes() if tokenizer.exists() else b"",
        dialect=dialect,
    )


def _planned(package: Package, dialect: Dialect, name: str, entry: Entry) -> PlannedTensor:
    if isinstance(entry, Matrix):
        format_ = package.formats[name]
        arrays = format_.arrays(entry.shape, package.dtype, dialect.planes)
        named = {f"{name}.{suffix}": spec for suffix, spec in arrays.items()}
    else:
        format_, named = None, {name: ArraySpec(entry.dtype or package.dtype, entry.shape)}

    def read(start: int, stop: int) -> Any:
        raise NotImplementedError("stored arrays are copied, and never taken apart")

    return PlannedTensor(
        name=name,
        format=format_,
        shape=entry.shape,
        arrays=named,
        read=read,
        pieces=partial(_pieces, package, dialect, name, format_, entry, named),
    )


def _pieces(
    package: Package,
    dialect: Dialect,
    name: str,
    format_: WeightFormat | None,
    entry: Entry,
    arrays: Mapping[str, ArraySpec],
) -> Iterator[tuple[str, Piece]]:
    old, new = package.planes, dialect.planes
    for array in arrays:
        suffix = array.removeprefix(f"{name}.")
        if format_ is not None and old != new and changes(format_, suffix):
            yield array, reordered(format_, suffix, package.read(array), entry.shape, old, new)
        else:
            yield from ((array, piece) for piece in _stored(package, name, array))


def _stored(package: Package, name: str, array: str) -> Iterator[Piece]:
    """The bytes of an array where they lie, or where the parts of it lie."""
    parts = package.dialect.row_parts(package.config).get(name, ())
    if not parts:
        yield package.container.range(package.dialect.stored_name(array))
        return
    whole, suffix = package.tensors()[array], array.removeprefix(name)
    first = package.container.tensors[f"{parts[0].path}{suffix}"]
    if row_axis(whole, ArraySpec(first.dtype, first.shape)) == 0:
        yield from (package.container.range(f"{part.path}{suffix}") for part in parts)
    else:
        yield package.read(array)
