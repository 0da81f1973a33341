"""Each matrix of a package beside the reference's, one at a time."""

from collections.abc import Iterator
from math import prod

import numpy as np

from masu.runtime.loader import TensorSource
from masu.specs.formats.base import Arrays
from masu.specs.report import MatrixError
from masu.specs.summary import array_bytes, describe_format
from masu.specs.tensors import Matrix, Shape

BLOCK_VALUES = 1 << 20
"""Values whose difference is taken in float64 at once."""

TIED = "embedding"
UNTIED = ("input_embedding", "output_embedding")


def matrix_errors(package: TensorSource, reference: TensorSource) -> Iterator[MatrixError]:
    """The error and the size of every matrix, in the order of the config.

    Memory is bounded by the largest matrix, twice in float32. A table that `untie` made of a tied
    one is compared with that.
    """
    for name, entry in package.config.tensors():
        if isinstance(entry, Matrix):
            kept = package.formats[name]
            arrays = kept.arrays(entry.shape, package.dtype, package.planes)
            size = sum(map(array_bytes, arrays.values()))
            ours = _decoded(package, name, entry.shape)
            theirs = _decoded(reference, _counterpart(name, reference), entry.shape)
            yield MatrixError(
                name=name,
                format=describe_format(kept),
                shape=entry.shape,
                bytes=size,
                bits_per_weight=8 * size / prod(entry.shape),
                error=relative_error(ours, theirs),
            )


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """Frobenius norm of the difference over that of `expected`, summed in float64.

    Where nothing is expected, any difference is enormous, but still a number.
    """
    found, expected = found.reshape(-1), expected.reshape(-1)
    difference = norm = 0.0
    for at in range(0, len(expected), BLOCK_VALUES):
        theirs = expected[at : at + BLOCK_VALUES].astype(np.float64)
        off = found[at : at + BLOCK_VALUES] - theirs
        difference += float(off @ off)
        norm += float(theirs @ theirs)
    return float(np.sqrt(difference) / max(np.sqrt(norm), np.finfo(np.float32).tiny))


def _counterpart(name: str, reference: TensorSource) -> str:
    """The matrix's name in the reference, where an untied table is still the tied one."""
    path, _, last = name.rpartition(".")
    tied = f"{path}.{TIED}"
    return tied if name not in reference.formats and last in UNTIED else name


def _decoded(source: TensorSource, name: str, shape: Shape) -> np.ndarray:
    kept = source.formats[name]
    suffixes = kept.arrays(shape, source.dtype, source.planes)
    arrays: Arrays = {suffix: source.read(f"{name}.{suffix}") for suffix in suffixes}
    return kept.decode(arrays, shape, source.planes, np.float32)
