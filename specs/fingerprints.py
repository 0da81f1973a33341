"""fingerprints.json: what the numbers of a package were when it was converted, block by block.

Floats differ in their last digits from CPU to CPU, so the file is no part of a package's identity:
the manifest does not vouch for it, and it is compared with a tolerance.
"""

import json
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue

from masu.specs.schema_errors import validate_json
from masu.specs.strict import Count, IntegersOnly, Strict

FINGERPRINTS = "fingerprints.json"

Number = float | None
"""Null stands for what is not finite."""

Print = tuple[Number, Number, Number]
"""Of an array W: two sums `u W v` with fixed pseudo-random vectors u and v, and the root of the sum
of its squares, which is the size that a difference of the sums is measured by."""


class BlockPrint(Strict):
    """One block: the entry, a layer, or the exit.

    Attributes:
        name: what the names of its tensors begin with; `logits` for the exit.
        config: place in `configs` of the part of config.json that says how it computes.
        tensors: of every tensor that is first read here, decoded where it is stored as codes.
        output: of what the block makes of pseudo-random input, in float64.
    """

    name: str
    config: Annotated[int, Field(ge=0), IntegersOnly]
    tensors: dict[str, Print]
    output: Print


class Fingerprints(Strict):
    """The whole of fingerprints.json.

    Attributes:
        format_version: of this file.
        tokens: length of the pseudo-random input.
        configs: those of the blocks; blocks alike share one.
        blocks: in the order of the computation.
    """

    format_version: Annotated[Literal[1], IntegersOnly]
    tokens: Count
    configs: tuple[dict[str, JsonValue], ...]
    blocks: tuple[BlockPrint, ...]

    def to_bytes(self) -> bytes:
        """ASCII JSON with sorted keys, a block a line."""
        values = self.model_dump(mode="json")
        blocks = ",\n  ".join(_line(block) for block in values.pop("blocks"))
        return f'{_line(values)[:-1]}, "blocks": [\n  {blocks}\n]}}\n'.encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes, where: str = FINGERPRINTS) -> Self:
        """Raises SchemaError, which names each place that is not of the format."""
        return validate_json(cls, data, where)


def _line(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False)
