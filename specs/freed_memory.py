"""Memory that was freed goes back to the system, where the C library can do that when asked."""

import ctypes
import sys


def give_back() -> None:
    """After work that took far more memory than it left: the allocator would keep the rest.

    It gives back by itself only what lies at the end of the heap, and what is left of such work
    lies there. Milliseconds; without an effect where the C library is not glibc.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
