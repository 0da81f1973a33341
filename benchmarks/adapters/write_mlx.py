"""Writes an MLX checkpoint: 4 bits in groups of 32, and 8 for the matrices that are named.

python write_mlx.py CHECKPOINT OUT '["model.embed_tokens", ...]'
"""

import json
import sys
from typing import Any

from mlx_lm import convert  # pyright: ignore[reportMissingImports]

checkpoint, out, named = sys.argv[1:]
EIGHT = tuple(json.loads(named))


def bits_of(path: str, module: Any, *config: Any) -> bool | dict[str, int]:
    if not hasattr(module, "to_quantized"):
        return False
    return {"bits": 8 if path.endswith(EIGHT) else 4, "group_size": 32}


convert(
    checkpoint, out, quantize=True, q_bits=4, q_group_size=32, dtype="float16",
    quant_predicate=bits_of,
)  # fmt: skip
