"""Every quantisation method, by the name of its file: adding a file adds a method."""

from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules

from masu.quantizers.method import Method
from masu.specs.errors import RecipeError


def method_names() -> list[str]:
    return sorted(module.name for module in iter_modules(__path__))


def find_method(name: str) -> Method:
    """Raises RecipeError, which lists the known methods."""
    if name not in method_names():
        close = get_close_matches(name, method_names(), n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        known = ", ".join(method_names())
        raise RecipeError(f"no method {name!r}; known are {known}{meant}")
    return import_module(f"{__name__}.{name}").METHOD
