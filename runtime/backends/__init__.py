"""Every backend, by the name of its file; a file is imported when its backend is asked for.

Each module defines `BACKEND`, a subclass of `masu.runtime.backend.Backend`.
"""

from importlib import import_module
from pkgutil import iter_modules

from masu.runtime.backend import Backend
from masu.specs.errors import RequestError

DEFAULT = "jax"
"""The fastest that runs everywhere."""


def backend_names() -> list[str]:
    return sorted(module.name for module in iter_modules(__path__))


def load_backend(name: str | None = None) -> Backend:
    """A backend by name; without a name the default one.

    Compiled code lives as long as the object that is returned.

    Raises:
        RequestError: no such backend, or its library is not installed.
    """
    name = DEFAULT if name is None else name
    if name not in backend_names():
        raise RequestError(f"no backend {name!r}; there are: {', '.join(backend_names())}")
    try:
        module = import_module(f"{__name__}.{name}")
    except ImportError as cause:
        raise RequestError(f"backend {name!r} cannot be used here: {cause}") from cause
    return module.BACKEND()
