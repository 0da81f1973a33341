"""Kernels called outside of XLA, so that their operands and outputs lie between guard bytes."""

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from masu.runtime.backends.native.library import load_library
from masu.runtime.backends.native.program import XLA_TYPES
from masu.runtime.contract.memory import GuardedMemory

POINTER, SIZE = ctypes.c_void_p, ctypes.c_size_t

# The structures below are those of cpp/ffi.h.
EXECUTE = 3
ARRAY = 1


class _Buffer(ctypes.Structure):
    _fields_ = (
        ("struct_size", SIZE),
        ("extension", POINTER),
        ("type", ctypes.c_int32),
        ("data", POINTER),
        ("rank", ctypes.c_int64),
        ("dims", POINTER),
    )

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple((ctypes.c_int64 * self.rank).from_address(self.dims)) if self.rank else ()


class _List(ctypes.Structure):
    """`Args` and `Rets`."""

    _fields_ = (
        ("struct_size", SIZE),
        ("extension", POINTER),
        ("size", ctypes.c_int64),
        ("types", POINTER),
        ("items", POINTER),
    )

    def buffer(self, place: int) -> "_Buffer":
        address = ctypes.cast(self.items, ctypes.POINTER(POINTER))[place]
        return _Buffer.from_address(address)


class _NamedList(ctypes.Structure):
    _fields_ = (*_List._fields_[:4], ("names", POINTER), ("items", POINTER))


class _Array(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("size", SIZE), ("data", POINTER))


class _Name(ctypes.Structure):
    _fields_ = (("data", ctypes.c_char_p), ("length", SIZE))


class _ErrorArgs(ctypes.Structure):
    _fields_ = (
        ("struct_size", SIZE),
        ("extension", POINTER),
        ("message", ctypes.c_char_p),
        ("code", ctypes.c_int32),
    )


class _Api(ctypes.Structure):
    _fields_ = (
        ("struct_size", SIZE),
        ("extension", POINTER),
        ("version", SIZE * 3),
        ("internal", POINTER),
        ("create_error", POINTER),
    )


class Frame(ctypes.Structure):
    """What a kernel is called with."""

    _fields_ = (
        ("struct_size", SIZE),
        ("extension", POINTER),
        ("api", POINTER),
        ("context", POINTER),
        ("stage", ctypes.c_int32),
        ("args", _List),
        ("rets", _List),
        ("attrs", _NamedList),
    )


class _Kept:
    """Structures that point to each other, alive for the time of one call."""

    def __init__(self) -> None:
        self._alive: list[Any] = []

    def point(self, thing: Any) -> int:
        self._alive.append(thing)
        return ctypes.addressof(thing)

    def pointers(self, addresses: Sequence[int]) -> int:
        return self.point((POINTER * max(len(addresses), 1))(*addresses))

    def numbers(self, kind: Any, values: Sequence[int]) -> int:
        return self.point((kind * max(len(values), 1))(*values))

    def buffers(self, arrays: Sequence[np.ndarray]) -> _List:
        places = [self.point(self._buffer(array)) for array in arrays]
        types = self.numbers(ctypes.c_int32, [ARRAY] * len(places))
        return _List(ctypes.sizeof(_List), None, len(places), types, self.pointers(places))

    def _buffer(self, array: np.ndarray) -> _Buffer:
        self._alive.append(array)
        dims = self.numbers(ctypes.c_int64, array.shape)
        kind = XLA_TYPES[array.dtype]
        size = ctypes.sizeof(_Buffer)
        return _Buffer(size, None, kind, array.ctypes.data, array.ndim, dims)

    def attributes(self, given: Mapping[str, np.ndarray]) -> _NamedList:
        names, values = [], []
        for name, array in sorted(given.items()):
            self._alive.append(array)
            names.append(self.point(_Name(name.encode(), len(name))))
            kind = XLA_TYPES[array.dtype]
            values.append(self.point(_Array(kind, array.size, array.ctypes.data)))
        types = self.numbers(ctypes.c_int32, [ARRAY] * len(names))
        size = ctypes.sizeof(_NamedList)
        lists = self.pointers(names), self.pointers(values)
        return _NamedList(size, None, len(names), types, *lists)


def call_kernel(
    kernel: Callable[[int], Any],
    operands: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    attributes: Mapping[str, np.ndarray],
) -> None:
    """One call as XLA makes it, in memory of the caller's.

    Raises:
        ValueError: the kernel refused its operands.
    """
    kept, errors = _Kept(), []

    @ctypes.CFUNCTYPE(POINTER, ctypes.POINTER(_ErrorArgs))
    def create_error(told: Any) -> int:
        errors.append(told.contents.message.decode())
        return 1

    address = ctypes.cast(create_error, POINTER)
    api = _Api(ctypes.sizeof(_Api), None, (SIZE * 3)(), None, address)
    lists = kept.buffers(operands), kept.buffers(outputs), kept.attributes(attributes)
    size = ctypes.sizeof(Frame)
    frame = Frame(size, None, kept.point(api), None, EXECUTE, *lists)
    kernel(kept.point(frame))
    if errors:
        raise ValueError(errors[0])


@contextmanager
def guarded(memory: GuardedMemory) -> Iterator[None]:
    """For the time of it, every call of a kernel that is not compiled goes through `memory`."""
    library = load_library()

    def ffi_call(name: str, out: Any, **unused: Any) -> Callable[..., Any]:
        def call(*operands: Any, **attributes: np.ndarray) -> Any:
            shapes = out if isinstance(out, Sequence) else [out]
            given = [memory.place(f"operands of {name}", np.asarray(each)) for each in operands]
            outputs = [
                memory.empty(f"output of {name}", s.shape, np.dtype(s.dtype)) for s in shapes
            ]
            kernel = library[name]
            kernel.argtypes, kernel.restype = [POINTER], POINTER
            call_kernel(kernel, given, outputs, attributes)
            for before, after in zip(operands, given, strict=True):
                if np.asarray(before).tobytes() != after.tobytes():
                    raise ValueError(f"{name} writes into an operand")
            found = [jax.device_put(each.copy()) for each in outputs]
            return found if isinstance(out, Sequence) else found[0]

        return call

    # The one place that every kernel is called through, whoever calls it.
    before = jax.ffi.ffi_call
    jax.ffi.ffi_call = ffi_call  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        jax.ffi.ffi_call = before
