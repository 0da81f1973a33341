"""How a D4S4 table is described to the kernels: addresses and sizes in 32 words of 32 bits."""

from typing import Any

import numpy as np

from masu.runtime.backends.native.matrix import KINDS, WORDS, aligned
from masu.runtime.weights import Weight

TABLE = np.dtype(
    [
        *((name, "<u8") for name in ("codes", "steps", "row_scales")),
        *((name, "<u8") for name in ("ladder", "vectors", "factors")),
        *((name, "<u4") for name in ("rows", "columns", "step_bytes", "param")),
        ("unused", "<u4", 16),
    ]
)
"""`VectorTable` of cpp/between.h, field by field."""


def described_table(weight: Weight) -> np.ndarray:
    """The words of a table, uint32 `[32]`; they hold on to the arrays that they point to."""
    arrays, kept = weight.arrays, []

    def address(array: Any) -> int:
        kept.append(np.ascontiguousarray(array))
        return kept[-1].ctypes.data

    record = np.zeros(1, TABLE)
    record["codes"], record["steps"] = address(arrays["codes"]), address(arrays["ladder_indices"])
    record["row_scales"] = address(arrays["row_scales"])
    record["ladder"] = address(arrays["ladder"].astype(np.float32))
    record["vectors"] = address(arrays["table"].astype(np.float32))
    record["factors"] = address(arrays["output_hadamard_factors"].astype(np.float32))
    record["rows"], record["columns"] = weight.shape
    record["step_bytes"] = arrays["ladder_indices"].shape[-1]
    record["param"] = KINDS[arrays["row_scales"].dtype]
    words = aligned(TABLE.itemsize, kept).view(np.uint32)
    words[:] = record.view(np.uint32)
    return words.reshape(WORDS)
