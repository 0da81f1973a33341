"""The comparisons of the format tests see every fault that a decoder is likely to have.

A fault is planted into what the decoder is given; the independent decoder gets the sound arrays.
"""

import dataclasses
import json
from collections.abc import Callable

import numpy as np
import pytest
from format_cases import D4S4, StoredMatrix, agrees, golden_matrices, ramp

from masu.specs.formats import parse_spec

Change = Callable[[np.ndarray], np.ndarray]

LAYER = "decoder.transformer.layers"


def golden(case: str, path: str) -> StoredMatrix:
    return next(matrix for matrix in golden_matrices(case) if matrix.path == path)


INT4 = golden("llama-int4-g32-asym", f"{LAYER}.0.mlp.down_projection.weights")
INT8 = golden("llama-int8", f"{LAYER}.0.mixer.qkvg_projection.weights")
ODD_ROWS = golden("llama-odd-vocab-int4", "decoder.embedding.output_embedding")
MLX4 = golden("llama-mlx-4bit-g64", f"{LAYER}.1.mlp.down_projection.weights")
MLX1 = golden("bonsai-mlx-1bit", f"{LAYER}.1.mixer.out_projection.weights")
RHT = golden("llama-rht-int4", f"{LAYER}.0.mlp.down_projection.weights")
TABLE = golden("llama-tied-rht-embedding", "decoder.embedding.embedding")
ADAPTER = golden("llama-other-specs", f"{LAYER}.1.mixer.qkvg_projection.weights")
MXFP4 = golden("gpt_oss", f"{LAYER}.0.mlp.experts.up_projection.weights")
NVFP4 = golden("llama-other-specs", f"{LAYER}.0.mixer.out_projection.weights")
LLOYD3 = golden("llama-other-specs", f"{LAYER}.0.mlp.down_projection.weights")
LADDER = ramp(parse_spec(json.dumps(D4S4), "spec"), (6, 256), "group_major")


def nibbles_swapped(codes: np.ndarray) -> np.ndarray:
    return codes << 4 | codes >> 4


def bits_reversed(codes: np.ndarray) -> np.ndarray:
    return np.packbits(np.unpackbits(codes, axis=-1, bitorder="little"), axis=-1)


def one_more(codes: np.ndarray) -> np.ndarray:
    """Every 4-bit code plus one."""
    return (codes + 1 & 15) | ((codes >> 4) + 1 & 15) << 4


def not_transposed(plane: np.ndarray) -> np.ndarray:
    """The plane in the order `[rows, groups]`, taken for one in the other order."""
    return np.ascontiguousarray(plane.T).reshape(plane.shape)


def one_step_on(indices: np.ndarray) -> np.ndarray:
    """4-bit indices shifted by one place along the row."""
    low, high = indices & 15, indices >> 4
    return high | np.roll(low, -1, axis=-1) << 4


def zeros(array: np.ndarray) -> np.ndarray:
    return np.zeros_like(array)


def negated(array: np.ndarray) -> np.ndarray:
    return -array


def backwards(array: np.ndarray) -> np.ndarray:
    return array[..., ::-1]


def shifted(array: np.ndarray) -> np.ndarray:
    """Moved by one along the last axis: to the next group, row or channel."""
    return np.roll(array, 1, axis=-1)


FAULTS: list[tuple[StoredMatrix, str, Change]] = [
    (INT4, "weights", nibbles_swapped),
    (INT4, "weights", shifted),
    (INT4, "zero_points", nibbles_swapped),
    (INT4, "zero_points", one_more),
    (INT4, "zero_points", not_transposed),
    (INT4, "scales", not_transposed),
    (INT4, "scales", shifted),
    (INT8, "zero_points", lambda codes: codes + 1),
    (ODD_ROWS, "zero_points", one_more),
    (ODD_ROWS, "zero_points", not_transposed),
    (ODD_ROWS, "scales", not_transposed),
    (MLX4, "weights", nibbles_swapped),
    (MLX4, "biases", zeros),
    (MLX4, "biases", not_transposed),
    (MLX4, "scales", not_transposed),
    (MLX1, "weights", bits_reversed),
    (MLX1, "biases", zeros),
    (RHT, "incoherence_signs.input_signs", negated),
    (RHT, "incoherence_signs.input_signs", backwards),
    (RHT, "incoherence_signs.output_signs", negated),
    (RHT, "incoherence_signs.output_signs", shifted),
    (RHT, "quantized.weights", nibbles_swapped),
    (RHT, "quantized.zero_points", one_more),
    (TABLE, "incoherence_signs.output_signs", negated),
    (TABLE, "incoherence_signs.output_signs", backwards),
    (ADAPTER, "adapter.down_projection", zeros),
    (ADAPTER, "adapter.up_projection", negated),
    (ADAPTER, "quantized.scales", not_transposed),
    (MXFP4, "weights", nibbles_swapped),
    (MXFP4, "scales", lambda exponents: exponents + 1),
    (MXFP4, "scales", shifted),
    (NVFP4, "scales", shifted),
    (NVFP4, "global_scale", lambda scale: scale * 2),
    (LLOYD3, "weights", bits_reversed),
    (LLOYD3, "bias_indices", nibbles_swapped),
    (LLOYD3, "bias_indices", one_more),
    (LADDER, "ladder_indices", one_step_on),
    (LADDER, "ladder_indices", nibbles_swapped),
    (LADDER, "row_scales", shifted),
    (LADDER, "table", backwards),
    (LADDER, "output_hadamard_factors", negated),
]


@pytest.mark.parametrize(
    ("matrix", "suffix", "change"),
    FAULTS,
    ids=[f"{matrix!r}-{suffix}-{change.__name__}" for matrix, suffix, change in FAULTS],
)
def test_a_fault_in_the_arrays_is_seen(matrix: StoredMatrix, suffix: str, change: Change) -> None:
    faulty = {**matrix.arrays, suffix: change(matrix.arrays[suffix])}
    assert faulty[suffix].shape == matrix.arrays[suffix].shape
    assert agrees(matrix.decoded(), matrix.reference)
    assert not agrees(dataclasses.replace(matrix, arrays=faulty).decoded(), matrix.reference)


@pytest.mark.parametrize(
    ("matrix", "field", "value"),
    [
        (INT8, "is_symmetric", True),
        (RHT, "incoherence_block_size", 64),
        (RHT, "incoherence_processing_mode", "input"),
        (RHT, "incoherence_processing_mode", "output"),
        (RHT, "incoherence_block_size", None),
        (ADAPTER, "adapter_spec", None),
        (LLOYD3, "bias_bits", None),
    ],
    ids=repr,
)
def test_a_fault_in_the_spec_is_seen(matrix: StoredMatrix, field: str, value: object) -> None:
    spec = matrix.spec.model_copy(update={field: value})
    assert not agrees(dataclasses.replace(matrix, spec=spec).decoded(), matrix.reference)
