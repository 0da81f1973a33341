"""Native kernels: stored weights are read in place, and every reduction is row-invariant.

What they do not serve goes the way of the plain JAX backend.
"""

from masu.runtime.backends.native.native_backend import NativeBackend

BACKEND = NativeBackend
