"""One backend object for all tests of a process, so that equal layers are compiled once."""

from functools import cache

from masu.runtime.backend import Backend
from masu.runtime.backends import load_backend


@cache
def shared_backend(name: str) -> Backend:
    return load_backend(name)
