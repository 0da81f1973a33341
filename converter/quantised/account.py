"""What became of quantised matrices, in words for the ledger: kept, recoded, decoded, rounded."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import prod

from masu.converter.kept import KeptMaking
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.formats import IntSpec, MLXSpec


def kept_notes(makings: Iterable[KeptMaking]) -> list[str]:
    """Formats, sizes that grew, and how far parameters were rounded; the codes are exact always."""
    kept = list(makings)
    return [*_formats(kept), *_growth(kept), *_rounding(kept)]


def decoded_notes(labels: Iterable[tuple[str, ...]], dtype: str) -> list[str]:
    """Of matrices that are stored as numbers: how their sources, by label, were encoded."""
    counts = Counter(labels)
    return [
        f"{_matrices(count)} of {' and '.join(names)} {_is(count)} decoded and stored as {dtype}"
        for names, count in sorted(counts.items())
    ]


def _formats(kept: Sequence[KeptMaking]) -> Iterator[str]:
    counts = Counter(_described(making.format) for making in kept)
    for described, count in sorted(counts.items()):
        yield f"{_matrices(count)} {'keeps its' if count == 1 else 'keep their'} codes: {described}"


def _growth(kept: Sequence[KeptMaking]) -> Iterator[str]:
    """Matrices whose codes or groups had to be recoded, without loss, into more bytes."""
    recoded: dict[str, list[KeptMaking]] = {}
    for making in kept:
        widths = sorted({grid.bits for grid in making.grids})
        sizes = sorted({grid.group_size for grid in making.grids})
        if widths != [making.format.bits] or sizes != [making.format.group_size]:
            before = f"{_and(widths)} bits, groups of {_and(sizes)}"
            recoded.setdefault(f"{before} -> {_described(making.format)}", []).append(making)
    for change, makings in sorted(recoded.items()):
        source = sum(making.source_bytes for making in makings)
        stored = sum(_stored_bytes(making) for making in makings)
        yield (
            f"{_matrices(len(makings))} recoded without loss, {change}: {source:,} bytes in the "
            f"source, {stored:,} in the package ({stored / source - 1:+.1%})"
        )


def _rounding(kept: Sequence[KeptMaking]) -> Iterator[str]:
    by_types: dict[tuple[str, str], list[KeptMaking]] = {}
    for making in kept:
        if making.rounding is not None:
            by_types.setdefault((making.rounding.source, making.rounding.stored), []).append(making)
    for (source, stored), makings in sorted(by_types.items()):
        found = [making.rounding for making in makings if making.rounding is not None]
        values, changed = sum(r.values for r in found), sum(r.changed for r in found)
        yield (
            f"scales and biases of {_matrices(len(found))} are rounded from {source} to {stored}: "
            f"{changed / values:.1%} of {values:,} change, by {max(r.largest for r in found):.2%} "
            "at most; the codes are exact"
        )


def _stored_bytes(making: KeptMaking) -> int:
    return sum(prod(s.shape) * NUMPY_DTYPES[s.dtype].itemsize for s in making.specs.values())


def _described(format_: IntSpec | MLXSpec) -> str:
    kind = "MLX"
    if isinstance(format_, IntSpec):
        kind = "symmetric Int" if format_.is_symmetric else "asymmetric Int"
    return f"{kind}, {format_.bits} bits, groups of {format_.group_size}"


def _matrices(count: int) -> str:
    return "1 matrix" if count == 1 else f"{count} matrices"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _and(numbers: Sequence[int]) -> str:
    return " and ".join(map(str, numbers))
