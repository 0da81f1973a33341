"""A copy of a model that computes the same function, its channels in another order.

Weights that were decoded from a 4-bit file lie on a grid of groups of columns, which flatters every
format with the same groups. Here the channels of the residual stream, those of each MLP, and the
value channels within each head change places, with a fixed seed: each matrix undoes what the one
before it did, and no group holds the values that one grid was laid through. Queries and keys keep
their order, for rotary embeddings and their norms are tied to it; their columns are residual ones.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

from masu.converter.sources.gguf import open_gguf

SEED = 7
TABLES = ("model.embed_tokens.weight", "lm_head.weight")


def write_permuted(gguf: Path, out: Path, seed: int = SEED) -> None:
    """Write a Hugging Face folder, in bfloat16, of a model of the Llama or Gemma 3 kind."""
    checkpoint = open_gguf(gguf)
    orders = Orders(checkpoint.config, seed)
    tensors: dict[str, np.ndarray] = {}
    for name, tensor in checkpoint.tensors.items():
        moved = orders.moved(name, tensor.read(0, tensor.shape[0]))
        tensors[name] = np.ascontiguousarray(moved).astype(ml_dtypes.bfloat16)
    out.mkdir(parents=True)
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    config = {**checkpoint.config, "torch_dtype": "bfloat16"}
    (out / "config.json").write_text(json.dumps(config, indent=1))
    for file, text in checkpoint.texts.items():
        (out / file).write_bytes(text)


class Orders:
    """Which channel stands where."""

    def __init__(self, config: Mapping[str, Any], seed: int) -> None:
        self._config, self._seed = config, seed
        self._residual = np.random.default_rng(seed).permutation(config["hidden_size"])

    def moved(self, name: str, values: np.ndarray) -> np.ndarray:
        """The tensor of that Hugging Face name with its channels in the new order."""
        rows, columns = self._axes(name)
        values = values if rows is None else values[rows]
        return values if columns is None else values[:, columns]

    def _axes(self, name: str) -> tuple[np.ndarray | None, np.ndarray | None]:
        """The orders of rows and of columns; None where there is nothing to move."""
        if name in TABLES:
            return None, self._residual
        kind = name.split(".")[-2]
        if kind in ("q_norm", "k_norm"):
            return None, None
        if kind == "norm" or kind.endswith("layernorm"):
            return self._residual, None
        layer = int(name.split(".")[2])
        heads, groups = (self._config[f"num_{k}_heads"] for k in ("attention", "key_value"))
        mlp = self._order(layer, 0, self._config["intermediate_size"])
        return {
            "q_proj": (None, self._residual),
            "k_proj": (None, self._residual),
            "v_proj": (self._values(layer, groups, 1), self._residual),
            "o_proj": (self._residual, self._values(layer, groups, heads // groups)),
            "gate_proj": (mlp, self._residual),
            "up_proj": (mlp, self._residual),
            "down_proj": (self._residual, mlp),
        }[kind]

    def _values(self, layer: int, groups: int, repeats: int) -> np.ndarray:
        """Value channels within each head; the `repeats` query heads of a group share its order."""
        size = self._config["head_dim"]
        orders = [self._order(layer, 1 + group, size) for group in range(groups)]
        repeated = [order for order in orders for _ in range(repeats)]
        return np.concatenate([head * size + order for head, order in enumerate(repeated)])

    def _order(self, layer: int, part: int, size: int) -> np.ndarray:
        return np.random.default_rng([self._seed, layer, part]).permutation(size)
