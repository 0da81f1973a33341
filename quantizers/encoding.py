"""One planned matrix in another format: read, encoded and handed on a block of rows at a time."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from math import lcm, prod
from typing import TypeAlias

import numpy as np

from masu.quantizers.method import Method
from masu.specs.container_layout import stored_bytes
from masu.specs.dtypes import as_float32
from masu.specs.errors import TensorMismatch
from masu.specs.formats.base import Arrays, Format, Planes
from masu.specs.formats.d4s4 import D4S4Spec
from masu.specs.formats.d4s4_codebook import sample_rows
from masu.specs.formats.native.encoders import all_finite
from masu.specs.stream import Piece, PlannedTensor
from masu.specs.tensors import ArraySpec, Shape

BLOCK_VALUES = 1 << 20
"""Values encoded at a time: 4 MB of float32, little beside a model and much beside a function
call. No byte depends on it."""

Block: TypeAlias = tuple[int, int]
"""Entries of a tensor's first axis: rows of a matrix, or experts."""


def quantised(
    tensor: PlannedTensor, target: Format, method: Method, dtype: str, planes: Planes
) -> PlannedTensor:
    """The same matrix, to be stored in the format `target` by `method`."""

    def pieces() -> Iterator[tuple[str, Piece]]:
        for suffix, array in _stored(tensor, target, method, dtype, planes):
            yield f"{tensor.name}.{suffix}", array

    def decoded(start: int, stop: int) -> np.ndarray:
        arrays: dict[str, list[np.ndarray]] = {}
        for suffix, array in _stored(tensor, target, method, dtype, planes):
            arrays.setdefault(suffix, []).append(array)
        stored = {
            suffix: parts[0] if len(parts) == 1 else np.concatenate(parts)
            for suffix, parts in arrays.items()
        }
        return target.decode(stored, tensor.shape, planes, np.float32)[start:stop]

    specs = target.arrays(tensor.shape, dtype, planes)
    return replace(
        tensor,
        format=target,
        arrays={f"{tensor.name}.{suffix}": spec for suffix, spec in specs.items()},
        pieces=pieces,
        copied=None,
        decoded=decoded,
    )


def _stored(
    tensor: PlannedTensor, target: Format, method: Method, dtype: str, planes: Planes
) -> Iterator[tuple[str, np.ndarray]]:
    """The stored arrays in pieces along their first axis, in order."""
    if isinstance(target, D4S4Spec):
        yield from _with_codebook(tensor, target, dtype)
        return

    def encode(block: Block) -> Arrays:
        read = _read_finite if method.takes_narrow else read_values
        return method.encode(target, read(tensor, *block), dtype, planes)

    blocks = _blocks(tensor.shape, target, method)
    if len(tensor.shape) > 2 or len(blocks) == 1:
        for arrays in _in_order(encode, blocks):
            yield from arrays.items()
    else:
        codes = _largest(target.arrays(tensor.shape, dtype, planes))
        yield from _of_rows(_in_order(encode, blocks), codes, target, planes)


def _largest(specs: Mapping[str, ArraySpec]) -> str:
    return max(specs, key=lambda suffix: stored_bytes(specs[suffix]))


def _of_rows(
    blocks: Iterable[Arrays], codes: str, target: Format, planes: Planes
) -> Iterator[tuple[str, np.ndarray]]:
    """The array `codes` as soon as it is there; parameters, whose rows may lie across, at last."""
    kept: list[Arrays] = []
    for arrays in blocks:
        yield codes, arrays[codes]
        kept.append({suffix: array for suffix, array in arrays.items() if suffix != codes})
    yield from target.join(kept, planes).items()


def _with_codebook(
    tensor: PlannedTensor, target: D4S4Spec, dtype: str
) -> Iterator[tuple[str, np.ndarray]]:
    """A codebook is fitted to a sample of the rows first; then each row is encoded by itself."""
    rows, width = tensor.shape
    sample = [read_values(tensor, row, row + 1) for row in sample_rows(rows, width)]
    codebook = target.fit(np.concatenate(sample))
    yield from target.shared_arrays(codebook).items()
    size = max(1, 4 * BLOCK_VALUES // width)
    for start in range(0, rows, size):
        values = read_values(tensor, start, min(start + size, rows))
        yield from target.encode_rows(values, codebook, dtype).items()


def _blocks(shape: Shape, target: Format, method: Method) -> list[Block]:
    """Which entries of the first axis are encoded together."""
    entries, inner = shape[0], prod(shape[1:])
    if len(shape) > 2:
        size = 1
    elif target.row_multiple is None or not method.rows_apart:
        size = entries
    else:
        unit = lcm(target.row_multiple, 4)
        size = max(1, BLOCK_VALUES // (inner * unit)) * unit
    return [(start, min(start + size, entries)) for start in range(0, entries, size)]


def _in_order(encode: Callable[[Block], Arrays], blocks: Iterable[Block]) -> Iterator[Arrays]:
    """The blocks' arrays, first to last; a few are encoded ahead, one for each core."""
    remaining, threads = iter(blocks), os.cpu_count() or 1
    with ThreadPoolExecutor(threads, "encode") as pool:
        ahead: deque[Future[Arrays]] = deque(
            pool.submit(encode, block) for block in islice(remaining, threads + 1)
        )
        while ahead:
            done = ahead.popleft().result()
            ahead.extend(pool.submit(encode, block) for block in islice(remaining, 1))
            yield done


def read_values(tensor: PlannedTensor, start: int, stop: int) -> np.ndarray:
    """Entries of the first axis as float32.

    Raises:
        TensorMismatch: NaN or infinity among them, which no format with codes can say.
    """
    return as_float32(_read_finite(tensor, start, stop))


def _read_finite(tensor: PlannedTensor, start: int, stop: int) -> np.ndarray:
    """As `read_values`, but narrower types as they are."""
    values = tensor.read(start, stop)
    is_finite = all_finite(values)
    if is_finite is None:
        values = as_float32(values)
        is_finite = np.isfinite(values).all()
    if not is_finite:
        raise TensorMismatch(
            f"{tensor.name}: expected finite values, found NaN or infinity in entries "
            f"{start} to {stop}",
            hint="quantising would spread them over whole groups; look at the source's weights",
        )
    return values
