"""Operations of the native backend and of the numpy backend, run alike; skips without kernels."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from shared_backends import shared_backend

from masu.runtime.backend import Backend
from masu.runtime.backends import why_not

if problem := why_not("native"):
    pytest.skip(problem, allow_module_level=True)

from masu.runtime.backends.native import library

NATIVE, PLAIN = shared_backend("native"), shared_backend("numpy")
FLOAT32, BFLOAT16, FLOAT16 = (np.dtype(t) for t in (np.float32, ml_dtypes.bfloat16, np.float16))
SETS = library.INSTRUCTION_SETS
UNIT = 2.0**-24
CLASSES = (np.isnan, np.isposinf, np.isneginf)


def use(name: str) -> None:
    if not library.use_instruction_set(name):
        pytest.skip(f"this processor has no {name}")


def random(*shape: int, dtype: np.dtype = FLOAT32) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def run(backend: Backend, operation: str, *operands: Any) -> list[np.ndarray]:
    given = [backend.array(x) if isinstance(x, np.ndarray) else x for x in operands]
    found = getattr(backend, operation)(*given)
    return [backend.to_numpy(x) for x in (found if isinstance(found, tuple) else (found,))]


def wide(operands: Any) -> list[Any]:
    """In float64, but for integers and what is no array."""
    floating = (np.ndarray, np.generic)
    return [
        x.astype(np.float64) if isinstance(x, floating) and x.dtype.kind not in "iu" else x
        for x in operands
    ]


def unit_of(dtype: np.dtype) -> float:
    return float(ml_dtypes.finfo(dtype).eps) / 2
