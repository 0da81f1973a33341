"""Checkpoints with one quantised attention block, and what their packages decode to."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from checkpoints import copy_golden, edit_json, edit_tensors
from independent_decoder import decode
from safetensors.numpy import load_file

from masu.converter.convert import ConversionPlan, plan_conversion
from masu.converter.sources.folder import open_folder
from masu.specs.dtypes import NUMPY_DTYPES, FloatDType
from masu.specs.models import ModelSpec
from masu.specs.stream import FileRange, PlannedTensor

LAYER = "model.layers.0.self_attn"
FUSED = "decoder.transformer.layers.0.mixer.qkvg_projection.weights"
SIZES = {"q_proj": 64, "k_proj": 32, "v_proj": 32}
COLUMNS, GROUP = 64, 32

FIXTURES = Path(__file__).parent / "quantised"


def write_checkpoint(
    folder: Path, quantisation: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> Path:
    """Golden `llama`, its first attention block's projections replaced by `arrays`."""

    def replace(tensors: dict[str, np.ndarray]) -> None:
        for name in SIZES:
            del tensors[f"{LAYER}.{name}.weight"]
        tensors |= {f"{LAYER}.{name}": array for name, array in arrays.items()}

    copy_golden("llama", folder)
    edit_json(folder / "config.json", lambda c: {**c, "quantization_config": quantisation})
    edit_tensors(folder / "model.safetensors", replace)
    return folder


def planned(folder: Path, dtype: FloatDType = "F32", **options: Any) -> ConversionPlan:
    return plan_conversion(open_folder(folder), ModelSpec(repo="x"), dtype=dtype, **options)


def fused(plan: ConversionPlan) -> PlannedTensor:
    return next(tensor for tensor in plan.stream if tensor.name == FUSED)


def stored_arrays(tensor: PlannedTensor) -> dict[str, np.ndarray]:
    """The arrays of a planned tensor as the file will hold them, by suffix."""
    data: dict[str, bytes] = dict.fromkeys(tensor.arrays, b"")
    for name, piece in tensor.pieces():
        if isinstance(piece, FileRange):
            piece = np.fromfile(piece.path, np.uint8, piece.length, offset=piece.offset)
        data[name] += piece.tobytes()
    return {
        name.removeprefix(f"{tensor.name}."): np.frombuffer(
            data[name], NUMPY_DTYPES[spec.dtype]
        ).reshape(spec.shape)
        for name, spec in tensor.arrays.items()
    }


def package_values(tensor: PlannedTensor) -> np.ndarray:
    """What the stored arrays decode to, in float64, by a decoder that is not masu's."""
    assert tensor.format is not None
    spec = json.loads(tensor.format.to_json())
    return decode(stored_arrays(tensor), spec, tensor.shape, "group_major")


def eleven_bits(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Float16 scales with an odd 11-bit mantissa: none of them is a bfloat16 value."""
    mantissas = 1025 + 2 * rng.integers(0, 511, shape)
    return (mantissas * 2.0 ** rng.integers(-20, -14, shape)).astype(np.float16)


def packed(bits: int, symmetric: bool, strategy: str, group: int | None) -> dict[str, Any]:
    """A config of compressed-tensors."""
    weights = {
        "num_bits": bits, "type": "int", "symmetric": symmetric, "strategy": strategy,
        "group_size": group, "actorder": None, "block_structure": None, "dynamic": False,
        "observer": "minmax", "observer_kwargs": {},
    }  # fmt: skip
    scheme = {"weights": weights, "input_activations": None, "output_activations": None}
    return {
        "quant_method": "compressed-tensors", "format": "pack-quantized",
        "quantization_status": "compressed", "version": "0.20.1", "ignore": ["lm_head"],
        "kv_cache_scheme": None, "global_compression_ratio": None, "sparsity_config": {},
        "config_groups": {"group_0": {**scheme, "targets": ["Linear"], "format": None}},
    }  # fmt: skip


BNB = {"quant_method": "bitsandbytes", "llm_int8_threshold": 6.0, "llm_int8_skip_modules": None}
MLX = {
    "group_size": GROUP, "bits": 4, "mode": "affine",
    f"{LAYER}.k_proj": {"group_size": GROUP, "bits": 3},
    f"{LAYER}.v_proj": {"group_size": GROUP, "bits": 6},
}  # fmt: skip

WRITTEN_BY: dict[str, dict[str, Any]] = {
    "mlx": MLX,
    "compressed-tensors-group-asymmetric": packed(4, False, "group", GROUP),
    "compressed-tensors-channel-symmetric": packed(8, True, "channel", None),
    "bitsandbytes-int8": {**BNB, "load_in_8bit": True},
    "bitsandbytes-nf4": {**BNB, "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
}
"""What config.json says of the files of the formats' own writers (`tests/quantised/write.py`)."""


def fixture(name: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The stored arrays, and the values of queries, keys and values below each other."""
    arrays = load_file(FIXTURES / f"{name}.safetensors")
    values = np.concatenate([arrays.pop(f"expected.{layer}") for layer in SIZES])
    return arrays, values
