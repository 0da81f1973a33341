"""JSON values that a template can read and not change."""

from collections.abc import Mapping
from typing import Any, NoReturn

from masu.specs.errors import RequestError, TextError

MAX_DEPTH = 64


def sealed(value: Any, where: str, depth: int = MAX_DEPTH) -> Any:
    """A private copy of a JSON value, of lists and dicts that refuse to be changed.

    The template language hands Python's containers over as they are: without this, a template's
    `messages.append(...)` would reach the caller's own list.

    Args:
        where: how messages call the value (`messages`).

    Raises:
        RequestError: the value is not JSON, or nested deeper than `depth`.
    """
    if depth == 0:
        raise RequestError(f"{where}: nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, Mapping):
        if strange := [key for key in value if not isinstance(key, str)]:
            raise RequestError(f"{where}: keys must be text, found {strange[0]!r}")
        return SealedDict({k: sealed(v, f"{where}.{k}", depth - 1) for k, v in value.items()})
    if isinstance(value, list | tuple):
        return SealedList(sealed(v, f"{where}[{i}]", depth - 1) for i, v in enumerate(value))
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise RequestError(f"{where}: expected a JSON value, found a {type(value).__name__}")


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TextError("the chat template changes a list or dict, which no engine allows")


class SealedDict(dict[str, Any]):
    """A dict as templates see it."""

    clear = pop = popitem = setdefault = update = _refuse


class SealedList(list[Any]):
    """A list as templates see it."""

    append = clear = extend = insert = pop = remove = reverse = sort = _refuse
