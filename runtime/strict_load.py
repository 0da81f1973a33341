"""What every load of a network has in common: a backend, a dtype, and no tensor left over."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from masu.runtime.backend import ACTIVATION_DTYPES, Backend
from masu.runtime.backends import load_backend
from masu.runtime.loader import Loader, TensorSource
from masu.specs.errors import RequestError


class Opened(NamedTuple):
    """Where a network takes its tensors from, what computes, and the dtype of activations."""

    loader: Loader
    backend: Backend
    dtype: np.dtype


@contextmanager
def strict_load(
    source: TensorSource, root: str, dtype: str | None, backend: str | Backend | None
) -> Iterator[Opened]:
    """For the time of one load; at its end every tensor must have been asked for and read.

    Args:
        root: what every tensor's name begins with.
        dtype: of the activations; None follows the package's parameters, as the engine does (the
            numpy backend: float64).
        backend: a name, or a backend to share compiled code with; None takes the default.

    Raises:
        RequestError: no such backend, or it lacks the dtype.
        TensorError: the tensors are not those that the blocks ask for.
    """
    chosen = backend if isinstance(backend, Backend) else load_backend(backend)
    dtype = chosen.default_dtype(source.dtype) if dtype is None else dtype
    if dtype not in chosen.dtypes:
        known = ", ".join(chosen.dtypes)
        raise RequestError(f"backend {chosen.name!r} has no dtype {dtype!r}; it has: {known}")
    loader = Loader(source, chosen, ACTIVATION_DTYPES[dtype])
    yield Opened(loader.under(root), chosen, ACTIVATION_DTYPES[dtype])
    loader.finish()
