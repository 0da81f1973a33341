"""The base of every stored schema: frozen, no coercion, no unknown and no missing keys."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError


class Strict(BaseModel):
    """A JSON object of which every key is declared. Fields are written in the declared order."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, protected_namespaces=()
    )


U32 = Annotated[int, Field(ge=0, lt=2**32)]
U64 = Annotated[int, Field(ge=0, lt=2**64)]
Count = Annotated[int, Field(gt=0, lt=2**32)]


def _refuse_look_alikes(value: Any) -> Any:
    if isinstance(value, bool | float):
        raise PydanticCustomError("literal_error", "an integer is wanted")
    return value


IntegersOnly = BeforeValidator(_refuse_look_alikes)
"""Beside a `Literal` of integers, which takes `true` for 1 and 4.0 for 4 even in strict mode."""
