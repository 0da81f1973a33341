"""Every engine release that masu knows, one file each: adding a file adds an engine."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from masu.specs.dialect import Dialect
from masu.specs.engine import EngineProfile
from masu.specs.errors import EngineError
from masu.specs.schema_errors import did_you_mean

DEFAULT_ENGINE = "uzu-0.6"

_MODULES = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
ENGINES: dict[str, EngineProfile] = {module.ENGINE.name: module.ENGINE for module in _MODULES}
"""Profiles by name."""


def find_engine(name: str) -> EngineProfile:
    """Raises EngineError, which lists the known engines."""
    if name not in ENGINES:
        known = ", ".join(ENGINES)
        raise EngineError(f'no engine "{name}"; known are {known}{did_you_mean(name, ENGINES)}')
    return ENGINES[name]


def dialect_of(config: Any) -> Dialect:
    """The dialect of a parsed config.json, by its keys; the default engine's in case of doubt."""
    dialects = (engine.dialect for engine in ENGINES.values())
    recognised = (dialect for dialect in dialects if dialect.recognises(config))
    return next(recognised, ENGINES[DEFAULT_ENGINE].dialect)
