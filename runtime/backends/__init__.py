"""Every backend, by the name of its file; a file is imported when its backend is asked for.

Each module defines `BACKEND`, a subclass of `masu.runtime.backend.Backend`.
"""

from importlib import import_module
from pkgutil import iter_modules

from masu.runtime.backend import Backend
from masu.specs.errors import RequestError

PREFERENCE = ("native", "jax")
"""The fastest first; the last one runs everywhere."""


def backend_names() -> list[str]:
    return sorted(module.name for module in iter_modules(__path__))


def load_backend(
    name: str | None = None, *, threads: int | None = None, activations: str | None = None
) -> Backend:
    """A backend by name; without a name the best one that works here.

    Compiled code lives as long as the object that is returned.

    Args:
        threads: for kernels of our own; None takes every processor there is.
        activations: `int8` rounds rows that meet stored codes; None leaves them as they are.

    Raises:
        RequestError: no such backend, it cannot be used here, it leaves threads to its library, or
            does not round activations.
    """
    if name is None:
        name = next(each for each in PREFERENCE if why_not(each) is None)
    if name not in backend_names():
        raise RequestError(f"no backend {name!r}; there are: {', '.join(backend_names())}")
    try:
        backend = import_module(f"{__name__}.{name}").BACKEND(activations)
    except ImportError as cause:
        raise RequestError(f"backend {name!r} cannot be used here: {cause}") from cause
    if threads is not None:
        backend.set_threads(threads)
    return backend


def why_not(name: str) -> str | None:
    """Why a backend cannot be used here; None where it can."""
    try:
        load_backend(name)
    except RequestError as problem:
        return str(problem)
    return None
