"""The code and bias tables of the LloydMax format, which packages refer to and do not contain.

The figures are those that lalamo 0.17.0 ships (MIT licence; see NOTICE). Beside this file they
stand as float32, which holds each of them exactly, one table after the other: by group size, then
bits, then bias bits (no bias first).
"""

from functools import cache
from itertools import product
from pathlib import Path
from typing import Literal, get_args

import numpy as np

Bits = Literal[2, 3, 4, 6, 8]
GroupSize = Literal[2, 4, 16, 32, 64, 128]


def codebook(bits: Bits, group_size: GroupSize, bias_bits: Bits | None) -> np.ndarray:
    """The value of each code, ascending: float32 `[2 ** bits]`."""
    return _codebooks()[group_size, bits, bias_bits]


def bias_table(bits: Bits, group_size: GroupSize, bias_bits: Bits) -> np.ndarray:
    """The value of each bias index: float32 `[2 ** bias_bits]`."""
    return _bias_tables()[group_size, bits, bias_bits]


@cache
def _codebooks() -> dict[tuple[int, int, int | None], np.ndarray]:
    keys = list(product(get_args(GroupSize), get_args(Bits), (None, *get_args(Bits))))
    return dict(zip(keys, _split("codebooks", [2**bits for _, bits, _ in keys]), strict=True))


@cache
def _bias_tables() -> dict[tuple[int, int, int], np.ndarray]:
    keys = list(product(get_args(GroupSize), get_args(Bits), get_args(Bits)))
    return dict(zip(keys, _split("biases", [2**bits for _, _, bits in keys]), strict=True))


def _split(name: str, lengths: list[int]) -> list[np.ndarray]:
    """One read-only array of the file, cut into tables of these lengths."""
    with np.load(Path(__file__).with_suffix(".npz"), allow_pickle=False) as tables:
        values = tables[name]
    values.flags.writeable = False
    *ends, _ = np.cumsum(lengths)
    return np.split(values, ends)
