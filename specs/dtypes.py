"""The element types of model.safetensors, by their names in the file."""

from typing import Literal, get_args

import ml_dtypes
import numpy as np

DType = Literal[
    "BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "I16", "U16", "F16", "BF16",
    "I32", "U32", "F32", "C64", "F64", "I64", "U64",
]  # fmt: skip

FloatDType = Literal["F32", "F16", "BF16"]
"""The types that a package may use for its parameters (`--dtype`)."""

NUMPY_DTYPES: dict[str, np.dtype] = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "I16": np.dtype("<i2"),
    "U16": np.dtype("<u2"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I32": np.dtype("<i4"),
    "U32": np.dtype("<u4"),
    "F32": np.dtype("<f4"),
    "C64": np.dtype("<c8"),
    "F64": np.dtype("<f8"),
    "I64": np.dtype("<i8"),
    "U64": np.dtype("<u8"),
}
assert set(NUMPY_DTYPES) == set(get_args(DType))

FLOAT_DTYPES: dict[str, FloatDType] = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
"""`--dtype` names to names in the file."""


def dtype_name(dtype: np.dtype) -> str:
    """The name in the file of a numpy dtype."""
    return next(name for name, known in NUMPY_DTYPES.items() if known == dtype)


def alignment(dtype: str) -> int:
    """Bytes that a tensor of this type is aligned to; complex numbers count as their parts."""
    return 4 if dtype == "C64" else NUMPY_DTYPES[dtype].itemsize


def as_float32(values: np.ndarray) -> np.ndarray:
    """The same numbers; bfloat16 is the upper half of a float32, which is the fast way."""
    if values.dtype == NUMPY_DTYPES["BF16"]:
        bits = np.ascontiguousarray(values).view(np.uint16).astype(np.uint32)
        return np.left_shift(bits, 16, out=bits).view(np.float32)
    return values.astype(np.float32)
