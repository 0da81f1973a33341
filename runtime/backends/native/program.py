"""A list of kernel calls that is run from one place, with addresses put in before each run."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masu.runtime.backends.native.library import load_library
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.tensors import Shape

XLA_TYPES = {
    np.dtype(np.bool_): 1,
    np.dtype(np.int32): 4,
    np.dtype(np.uint32): 8,
    np.dtype(np.float16): 10,
    np.dtype(np.float32): 11,
    NUMPY_DTYPES["BF16"]: 16,
}
"""Element types by their numbers in XLA; kernels know no others."""


@dataclass(frozen=True)
class Place:
    """An array of a program: `offset` bytes into a block of memory."""

    block: int
    offset: int
    shape: Shape
    dtype: np.dtype

    @property
    def size(self) -> int:
        """In bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


class _Operand(ctypes.Structure):
    """`Operand` of cpp/program.h, field by field."""

    _fields_ = (
        ("block", ctypes.c_int32),
        ("type", ctypes.c_int32),
        ("offset", ctypes.c_int64),
        ("rank", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
    )

    @classmethod
    def of(cls, place: Place) -> "_Operand":
        dims = (ctypes.c_int64 * len(place.shape))(*place.shape)
        kind = XLA_TYPES[place.dtype]
        return cls(place.block, kind, place.offset, len(place.shape), dims)


class Program:
    """Calls in the order in which they were added."""

    def __init__(self) -> None:
        self._library = load_library()
        self._library.masu_program.restype = ctypes.c_void_p
        self._library.masu_program_run.restype = ctypes.c_char_p
        self._handle = ctypes.c_void_p(self._library.masu_program())

    def __del__(self) -> None:
        if handle := getattr(self, "_handle", None):
            self._library.masu_program_free(handle)

    def add(
        self,
        target: str,
        arguments: Sequence[Place],
        results: Sequence[Place],
        numbers: np.ndarray,
        sizes: np.ndarray,
    ) -> None:
        """One more call of a kernel, with the constants that it takes from XLA."""
        places = [*arguments, *results]
        operands = (_Operand * len(places))(*map(_Operand.of, places))
        numbers, sizes = np.asarray(numbers, np.float32), np.asarray(sizes, np.int32)
        self._library.masu_program_add(
            self._handle,
            ctypes.cast(self._library[target], ctypes.c_void_p),
            operands,
            len(arguments),
            len(places),
            ctypes.c_void_p(numbers.ctypes.data),
            len(numbers),
            ctypes.c_void_p(sizes.ctypes.data),
            len(sizes),
        )

    def bind(self, addresses: Sequence[tuple[int, int]]) -> None:
        """Where blocks begin: `(block, address)`."""
        blocks = (ctypes.c_int32 * len(addresses))(*(block for block, _ in addresses))
        memory = (ctypes.c_void_p * len(addresses))(*(address for _, address in addresses))
        self._library.masu_program_bind(self._handle, len(addresses), blocks, memory)

    def run(self) -> None:
        """Every call.

        Raises:
            RuntimeError: a kernel refused its operands, which lowering is to prevent.
        """
        if message := self._library.masu_program_run(self._handle):
            raise RuntimeError(message.decode())
