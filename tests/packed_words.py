"""Codes packed into 32-bit words as GPTQ and AWQ do it, one bit stream at a time, in plain loops.

No code of masu's is used: a stream is a Python integer, and words are cut out of it.
"""

import numpy as np

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""The output channels of a word, from its low bits up (AutoAWQ, `WQLinear_GEMM`)."""


def words(codes: list[int], bits: int) -> list[int]:
    """One line of codes as little-endian signed 32-bit words."""
    stream = sum(code << place * bits for place, code in enumerate(codes))
    count = -(-len(codes) * bits // 32)
    cut = [(stream >> 32 * place) & 0xFFFFFFFF for place in range(count)]
    return [word - 2**32 if word >= 2**31 else word for word in cut]


def along_columns(codes: np.ndarray, bits: int) -> np.ndarray:
    """`[in, out]` as int32 `[in * bits / 32, out]`: GPTQ's qweight."""
    return np.array([words(line, bits) for line in codes.T.tolist()], np.int32).T


def along_rows(codes: np.ndarray, bits: int) -> np.ndarray:
    """`[groups, out]` as int32 `[groups, out * bits / 32]`: GPTQ's qzeros."""
    return np.array([words(line, bits) for line in codes.tolist()], np.int32)


def awq(codes: np.ndarray) -> np.ndarray:
    """`[in, out]` as int32 `[in, out / 8]`."""
    ordered = codes.reshape(len(codes), -1, 8)[..., AWQ_ORDER]
    return along_rows(ordered.reshape(codes.shape), 4)
