"""One backend object for all tests of a process, so that equal layers are compiled once."""

from functools import cache

import pytest

from masu.runtime.backend import Backend
from masu.runtime.backends import load_backend, why_not


@cache
def shared_backend(name: str) -> Backend:
    """Skips the test where the backend cannot be used: without a compiler there are no kernels."""
    if problem := why_not(name):
        pytest.skip(problem)
    return load_backend(name)
