"""Every weight format of an engine package. Adding one: a module here, and its name below."""

from typing import Annotated, TypeAlias

from pydantic import Discriminator, TypeAdapter

from masu.specs.formats.base import Format, Planes
from masu.specs.formats.d4s4 import D4S4Spec
from masu.specs.formats.full_precision import FullPrecisionSpec
from masu.specs.formats.hybrid import HybridSpec
from masu.specs.formats.integer import IntSpec
from masu.specs.formats.lloyd_max import LloydMaxSpec
from masu.specs.formats.low_rank import LowRankSpec
from masu.specs.formats.microfloat import MicrofloatSpec
from masu.specs.formats.mlx import MLXSpec
from masu.specs.schema_errors import validate_json

__all__ = [
    "WEIGHT_FORMAT",
    "D4S4Spec",
    "Format",
    "FullPrecisionSpec",
    "HybridSpec",
    "IntSpec",
    "LloydMaxSpec",
    "LowRankSpec",
    "MLXSpec",
    "MicrofloatSpec",
    "Planes",
    "WeightFormat",
    "parse_spec",
]

WeightFormat: TypeAlias = Annotated[
    FullPrecisionSpec
    | IntSpec
    | MLXSpec
    | LloydMaxSpec
    | MicrofloatSpec
    | LowRankSpec
    | HybridSpec
    | D4S4Spec,
    Discriminator("type"),
]

WEIGHT_FORMAT: TypeAdapter[WeightFormat] = TypeAdapter(WeightFormat)


def parse_spec(text: str, where: str) -> WeightFormat:
    """The format that a metadata entry `<path>.spec` describes; `where` names the entry.

    Raises:
        SchemaError: not JSON, or not a known format with exactly its own fields.
    """
    return validate_json(WEIGHT_FORMAT, text.encode(), where)
