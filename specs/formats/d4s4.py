"""Tables in 4-vectors of a 256-entry codebook, with a 4-bit ladder of scales, about 2 bits."""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np

from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.errors import TensorError
from masu.specs.formats.base import Format, Planes
from masu.specs.formats.d4s4_codebook import (
    BLOCK,
    HADAMARD_BLOCK,
    Codebook,
    fit,
    rotate,
    sample_rows,
)
from masu.specs.formats.d4s4_ladder import STEP, Scales, scale_rows
from masu.specs.formats.d4s4_search import VECTOR
from masu.specs.formats.hadamard import hadamard
from masu.specs.formats.packing import pack, packed_shape, unpack
from masu.specs.tensors import ArraySpec, Layout, Shape

PER_ROW = ("codes", "row_scales", "ladder_indices")
"""The arrays that have a row for each row of the table; the others serve all of it."""


class D4S4Spec(Format):
    """`w = (H (row_scale * ladder[index] * table[code])) * output_hadamard_factor`, row by row.

    Only for tables `[vocab, width]` that are looked up. uzu 0.6.13 reads it; lalamo has no word
    for it. The codebook, the ladder and the row scales are whatever the file says.
    """

    type: Literal["D4S4Spec"]
    layout: Literal["input_output"]

    @property
    def stored_layout(self) -> Layout:
        return self.layout

    def problem(self, shape: Shape) -> str | None:
        if len(shape) != 2:
            return f"a table has two axes, not the {len(shape)} of {list(shape)}"
        if shape[1] % (2 * STEP):
            return f"{shape[1]} columns are not a multiple of {2 * STEP}"
        return None

    def arrays(self, shape: Shape, dtype: str, planes: Planes) -> dict[str, ArraySpec]:
        rows, columns = shape
        return {
            "codes": ArraySpec("U8", (rows, columns // VECTOR)),
            "row_scales": ArraySpec(dtype, (rows,)),
            "ladder_indices": ArraySpec("U8", packed_shape((rows, columns // STEP), 4)),
            "ladder": ArraySpec("F16", (16,)),
            "table": ArraySpec("I8", (256, VECTOR)),
            "output_hadamard_factors": ArraySpec("I32", (columns,)),
        }

    def decode(
        self, arrays: Mapping[str, Any], shape: Shape, planes: Planes, dtype: Any, xp: Any = np
    ) -> Any:
        rows, columns = shape
        steps = unpack(arrays["ladder_indices"], 4, columns // STEP, xp)
        scales = arrays["row_scales"].astype(dtype)[:, None] * arrays["ladder"].astype(dtype)[steps]
        vectors = arrays["table"].astype(dtype)[arrays["codes"]]
        scaled = vectors.reshape(rows, -1, STEP) * scales[..., None]
        rotated = hadamard(scaled.reshape(shape), HADAMARD_BLOCK, xp=xp)
        return rotated * arrays["output_hadamard_factors"].astype(dtype)[None, :]

    @property
    def rows_apart(self) -> int | None:
        return 1

    def row_axis(self, suffix: str, planes: Planes) -> int | None:
        if suffix not in PER_ROW:
            return None
        return -1 if suffix == "row_scales" else -2

    def encode(self, values: np.ndarray, dtype: str, planes: Planes) -> dict[str, np.ndarray]:
        """The stored arrays of float32 `[rows, width]`, row scales in `dtype` (`"BF16"`, ...).

        The same as `fit` on `sample_rows` and `encode_rows` of all rows, in pieces of any size.
        TensorError where the shape does not suit the format or a value is not finite.
        """
        if problem := self.problem(values.shape):
            raise TensorError(f"a table cannot be kept in D4S4: {problem}")
        codebook = self.fit(values[sample_rows(*values.shape)])
        return self.encode_rows(values, codebook, dtype) | self.shared_arrays(codebook)

    def fit(self, sample: np.ndarray, threads: int | None = None) -> Codebook:
        """The codebook for a table of which these are rows, float32 `[rows, width]`.

        Its bytes do not depend on the number of threads, by default one per core.
        """
        _refuse_unfinite(sample)
        with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
            return fit(sample, pool.map)

    def encode_rows(
        self, values: np.ndarray, codebook: Codebook, dtype: str, threads: int | None = None
    ) -> dict[str, np.ndarray]:
        """The arrays `PER_ROW` of some rows, float32 `[rows, width]`: those of no other matter."""
        rows, width = values.shape
        arrays = {
            suffix: np.empty(spec.shape, NUMPY_DTYPES[spec.dtype])
            for suffix, spec in self.arrays(values.shape, dtype, "group_major").items()
            if suffix in PER_ROW
        }
        scales, size = codebook.scales, max(BLOCK // width, 1)

        def encode_block(start: int) -> None:
            span = slice(start, start + size)
            block = _encoded(values[span], codebook, scales, dtype)
            for suffix, part in block.items():
                arrays[suffix][span] = part

        with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
            list(pool.map(encode_block, range(0, rows, size)))
        return arrays

    def shared_arrays(self, codebook: Codebook) -> dict[str, np.ndarray]:
        """The arrays that are no rows."""
        return {
            "ladder": codebook.ladder,
            "table": codebook.table,
            "output_hadamard_factors": codebook.factors,
        }


def _encoded(
    values: np.ndarray, codebook: Codebook, scales: Scales, dtype: str
) -> dict[str, np.ndarray]:
    _refuse_unfinite(values)
    rotated = rotate(values, codebook.factors)
    row_scales, choice = scale_rows(rotated, scales, NUMPY_DTYPES[dtype])
    indices = pack(choice.steps, 4)
    return {"codes": choice.codes, "row_scales": row_scales, "ladder_indices": indices}


def _refuse_unfinite(values: np.ndarray) -> None:
    """The sum of 32 values of this size is still a float32."""
    if not np.abs(values).max(initial=0) <= np.finfo(np.float32).max / HADAMARD_BLOCK:
        raise TensorError(
            "a table cannot be kept in D4S4: expected finite values below 1e37",
            hint="look for NaN and infinity in the source",
        )
