"""Tiny Hugging Face checkpoints, made on the spot: a few tensors, one file or two shards."""

import json
from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors.numpy import save

from masu.converter.checkpoint import Checkpoint

CONFIG = {"model_type": "llama", "hidden_size": 4}
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
INDEX = "model.safetensors.index.json"


def tensors(seed: int = 0) -> dict[str, np.ndarray]:
    """Two bfloat16 matrices, a float32 vector and a scalar."""
    rng = np.random.default_rng(seed)
    return {
        "embed.weight": rng.normal(size=(6, 4)).astype(ml_dtypes.bfloat16),
        "layers.0.weight": rng.normal(size=(4, 4)).astype(ml_dtypes.bfloat16),
        "norm.weight": rng.normal(size=4).astype(np.float32),
        "scale": np.array(rng.normal(), np.float32),
    }


def single(seed: int = 0) -> dict[str, bytes]:
    """The files of a checkpoint in one weight file."""
    return {**_small_files(), "model.safetensors": save(tensors(seed), {"format": "pt"})}


def sharded(seed: int = 0) -> dict[str, bytes]:
    """The files of a checkpoint in two shards: the matrices, and the rest."""
    names = list(tensors(seed))
    shards = {SHARDS[0]: names[:2], SHARDS[1]: names[2:]}
    return {**_small_files(), **with_index(shards, seed)}


def with_index(shards: dict[str, list[str]], seed: int = 0) -> dict[str, bytes]:
    """Shards with the tensors named for each, and the index that says so."""
    known = tensors(seed)
    files = {
        shard: save({name: known[name] for name in names}, {"format": "pt"})
        for shard, names in shards.items()
    }
    placed = {name: shard for shard, names in shards.items() for name in names}
    return {**files, INDEX: index(placed)}


def index(placed: object) -> bytes:
    return json.dumps({"metadata": {"total_size": 1}, "weight_map": placed}).encode()


def write(folder: Path, files: dict[str, bytes]) -> Path:
    """The folder, made and filled."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def holds(checkpoint: Checkpoint, expected: Mapping[str, np.ndarray]) -> bool:
    """Whether the checkpoint has exactly these tensors, bit for bit."""
    return checkpoint.tensors.keys() == expected.keys() and all(
        same(tensor.read(0, tensor.shape[0] if tensor.shape else 1), expected[name])
        for name, tensor in checkpoint.tensors.items()
    )


def same(found: np.ndarray, expected: np.ndarray) -> bool:
    """Whether two arrays agree in type, shape and bits."""
    as_pairs = [(a.dtype, a.shape, a.tobytes()) for a in (found, expected)]
    return as_pairs[0] == as_pairs[1]


def _small_files() -> dict[str, bytes]:
    return {
        "config.json": json.dumps(CONFIG).encode(),
        "tokenizer.json": b'{"version": "1.0"}',
        "tokenizer_config.json": b"{}",
    }
