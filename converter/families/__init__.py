"""Every model family. A module here is a family, and its name is the Hugging Face `model_type`.

Families from outside come by entry points of the group `masu.families`, under the same naming.
"""

import difflib
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import Any

from masu.converter.family import Family
from masu.specs.errors import UnknownFamily

ENTRY_POINTS = "masu.families"


def family_names() -> list[str]:
    """Every known `model_type`, sorted."""
    return sorted({*_built_in(), *_external()})


@cache
def load_family(name: str) -> Family[Any]:
    """The family of a `model_type`. Only this one file is imported.

    Raises:
        UnknownFamily: no file and no entry point has this name.
    """
    if name in _built_in():
        return import_module(f"{__name__}.{name}").FAMILY
    if name in _external():
        return _external()[name].load()
    close = difflib.get_close_matches(name, family_names(), n=3)
    meant = f"did you mean {' or '.join(close)}? " if close else ""
    raise UnknownFamily(
        f"model_type {name!r} is not a family that masu converts",
        hint=f"{meant}known families: {', '.join(family_names())}; "
        "--family forces one for a checkpoint of the same architecture",
    )


def _built_in() -> set[str]:
    return {module.name for module in iter_modules(__path__)}


def _external() -> dict[str, Any]:
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}
