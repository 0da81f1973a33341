"""Finds the compiled encoders and calls them on arrays; None where there is nothing compiled.

They are built with the package where there is a C++17 compiler. The numpy code of each format and
method says what is right, and does the work where they are missing. Calls leave Python's lock to
other threads.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from masu.specs.formats.ladder import MAX_LEVELS, Ladder, Steps

_TYPES = {"float32": 0, "float16": 1, "bfloat16": 2}
_LADDER_SIZES = (16, 32, 64, 128)


class Affine(NamedTuple):
    """uint8 `[..., rows, packed columns]`, and float32 `[..., rows, groups]` twice."""

    packed: np.ndarray
    scales: np.ndarray
    biases: np.ndarray


def why_not() -> str | None:
    """Why the compiled encoders cannot be used; None where they can."""
    found = _library()
    return found if isinstance(found, str) else None


def encode_mlx(
    values: np.ndarray, bits: int, group_size: int, *, portable: bool = False
) -> Affine | None:
    """What method `mlx` makes of finite values `[..., rows, columns]` of whole groups.

    Args:
        portable: to compute as processors without wide vectors do, to the same bits.

    Returns:
        None where the types, bits or group sizes are not among the compiled ones.
    """
    library, kind = _library(), _TYPES.get(values.dtype.name)
    if isinstance(library, str) or kind is None:
        return None
    values = np.ascontiguousarray(values)
    *lead, columns = values.shape
    packed = np.empty((*lead, columns * bits // 8), np.uint8)
    scales, biases = (np.empty((*lead, columns // group_size), np.float32) for _ in range(2))
    arrays = (packed, scales, biases)
    outputs = [array.ctypes.data for array in arrays]
    begin, count = values.ctypes.data, values.size
    done = library.masu_encode_mlx(portable, kind, bits, group_size, begin, count, *outputs)
    return Affine(*arrays) if done else None


def all_finite(values: np.ndarray, *, portable: bool = False) -> bool | None:
    """Whether no value is NaN or infinite; None where the type is not among the compiled ones."""
    library, kind = _library(), _TYPES.get(values.dtype.name)
    if isinstance(library, str) or kind is None:
        return None
    values = np.ascontiguousarray(values)
    return library.masu_all_finite(portable, kind, values.ctypes.data, values.size)


def serves(ladder: Ladder | None, group_size: int) -> bool:
    """Whether the functions below are there for groups of this size on this ladder."""
    if ladder is None or len(ladder.levels) > MAX_LEVELS or group_size not in _LADDER_SIZES:
        return False
    return why_not() is None


def lowest_error(
    groups: np.ndarray, ladder: Ladder, candidates: Sequence[Steps], *, portable: bool = False
) -> np.ndarray:
    """Which of at most 256 candidates leaves the smallest squared error, the first on ties.

    uint8 `[..., groups]` for float32 `[..., groups, group_size]`; by the operations and in the
    order of `grouped.squared_error`.
    """
    divisors, offsets, scales, shared = zip(*candidates, strict=True)
    chosen = np.empty(groups.shape[:-1], np.uint8)
    steps = (*map(np.array, (divisors, offsets, scales)), shared[0])
    _on_ladder(groups, ladder, len(candidates), steps, chosen, portable)
    return chosen


def levels_of(
    groups: np.ndarray, ladder: Ladder, steps: Steps, *, portable: bool = False
) -> np.ndarray:
    """The index of the level of each value: uint8, the shape of `groups`.

    Of a mirrored ladder the sign of what is below zero stands above it, in bit 3.
    """
    codes = np.empty(groups.shape, np.uint8)
    _on_ladder(groups, ladder, 0, steps, codes, portable)
    return codes


def _on_ladder(
    groups: np.ndarray,
    ladder: Ladder,
    candidates: int,
    steps: Sequence[np.ndarray],
    out: np.ndarray,
    portable: bool,
) -> None:
    library = _library()
    assert not isinstance(library, str)  # `serves` was asked
    levels = np.full(MAX_LEVELS, np.inf, np.float32)
    thresholds = levels[1:].copy()
    levels[: len(ladder.levels)] = ladder.levels
    thresholds[: len(ladder.thresholds)] = ladder.thresholds
    shape = groups.shape[:-1]
    lead = (candidates,) if candidates else ()
    shapes = [(*lead, *shape)] * 3 + [shape]
    given = [levels, thresholds, groups]
    given += [np.broadcast_to(each, wide) for each, wide in zip(steps, shapes, strict=True)]
    given = [np.ascontiguousarray(each, np.float32) for each in given]
    table, edges, values, *rest = [each.ctypes.data for each in given]
    size, count = groups.shape[-1], prod(shape)
    kind = (portable, ladder.mirrored, size, len(ladder.levels))
    what = (*kind, table, edges, values, count, candidates)
    done = library.masu_on_ladder(*what, *rest, out.ctypes.data)
    assert done


@cache
def _library() -> ctypes.CDLL | str:
    """The library, or why there is none."""
    places = [Path(__file__).with_name(f"_encoders{suffix}") for suffix in EXTENSION_SUFFIXES]
    path = next((place for place in places if place.exists()), None)
    if path is None:
        return "not built: installing masu found no working C++17 compiler"
    flag, number = ctypes.c_int, ctypes.c_int64
    address = ctypes.c_void_p
    try:
        library = ctypes.CDLL(str(path))
        encode, finite = library.masu_encode_mlx, library.masu_all_finite
        on_ladder = library.masu_on_ladder
    except (OSError, AttributeError) as cause:
        return f"cannot be loaded: {cause}"
    encode.argtypes = [flag, flag, flag, flag, address, number, address, address, address]
    finite.argtypes = [flag, flag, address, number]
    on_ladder.argtypes = [flag] * 4 + [address] * 3 + [number, flag] + [address] * 5
    encode.restype = finite.restype = on_ladder.restype = ctypes.c_bool
    return library
