"""Native kernels: stored weights are read in place, and every reduction is row-invariant.

Weights in formats that no kernel reads are decoded to float32 when a package is loaded.
"""

from masu.runtime.backends.native.native_backend import NativeBackend

BACKEND = NativeBackend
