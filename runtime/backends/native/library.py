"""Finds and loads the compiled kernels, and makes them known to XLA.

They are built with the package where there is a C++17 compiler. They are no Python module: XLA
calls them through its foreign function interface.
"""

import ctypes
import os
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import jax

from masu.runtime.backends.native.kernels import KERNELS

INSTRUCTION_SETS = ("portable", "neon", "avx2", "avx512", "avx512-bf16")
"""What kernels are compiled for. The last one multiplies pairs of bfloat16 numbers."""


@cache
def load_library() -> ctypes.CDLL:
    """The kernels, registered with XLA.

    Raises:
        ImportError: they were not built, or cannot be loaded here; the message says why.
    """
    candidates = [Path(__file__).with_name(f"_kernels{suffix}") for suffix in EXTENSION_SUFFIXES]
    path = next((path for path in candidates if path.exists()), None)
    if path is None:
        raise ImportError(
            "the native kernels were not built: installing masu found no working C++17 compiler"
        )
    if jax.default_backend() != "cpu":
        raise ImportError(f"the native kernels are for the CPU, JAX uses {jax.default_backend()!r}")
    try:
        library = ctypes.CDLL(str(path))
        for kernel in KERNELS:
            # XLA asks each for the version of the interface it was written for.
            capsule = jax.ffi.pycapsule(library[kernel.target])
            jax.ffi.register_ffi_target(kernel.target, capsule, platform="cpu")
    except (OSError, RuntimeError, ValueError, AttributeError) as cause:
        raise ImportError(f"the native kernels cannot be loaded: {cause}") from cause
    library.masu_instruction_set.restype = ctypes.c_char_p
    library.masu_set_threads(default_threads())
    return library


def default_threads() -> int:
    """As many as the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def set_threads(count: int) -> None:
    """How many threads the kernels share their work among; no bit of a result depends on it."""
    load_library().masu_set_threads(count)


def threads() -> int:
    """How many there are now."""
    return load_library().masu_threads()


def instruction_set() -> str:
    """What the kernels in use are compiled for: one of `INSTRUCTION_SETS`."""
    return load_library().masu_instruction_set().decode()


def use_instruction_set(name: str) -> bool:
    """Whether this processor has it; then the kernels compiled for it are used from now on."""
    return bool(load_library().masu_use_instruction_set(name.encode()))
