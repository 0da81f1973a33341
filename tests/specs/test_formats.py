"""Weight formats decode what the engine's packages store, as an independent decoder reads it."""

import dataclasses
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from format_cases import (
    D4S4,
    QUANTISED_CASES,
    SPECS,
    StoredMatrix,
    agrees,
    container,
    golden_matrices,
    ramp,
    shape_for,
)
from golden import ENGINE_CASES, GOLDEN
from independent_decoder import code_at

from masu.specs.dtypes import NUMPY_DTYPES, dtype_name
from masu.specs.formats import D4S4Spec, HybridSpec, IntSpec, MLXSpec, parse_spec
from masu.specs.tensors import ArraySpec, Shape


def ramps(lead: Shape = ()) -> list[StoredMatrix]:
    """A synthetic matrix of every format, in both plane orders where that matters."""
    found: list[StoredMatrix] = []
    for spec in (parse_spec(json.dumps(fields), "spec") for fields in SPECS):
        shape = (*lead, *shape_for(spec))
        if spec.problem(shape) is None:
            found.append(ramp(spec, shape, "group_major"))
            if spec.arrays(shape, "F32", "row_major") != spec.arrays(shape, "F32", "group_major"):
                found.append(ramp(spec, shape, "row_major"))
    return found


def is_rotated(matrix: StoredMatrix) -> bool:
    spec = matrix.spec
    return spec.type == "D4S4Spec" or getattr(spec, "incoherence_block_size", None) is not None


RAMPS = ramps()
# Compiling takes long: every code path once. The cores of hybrids are formats of their own.
IN_JAX = [
    matrix
    for matrix in RAMPS
    if matrix.planes == "group_major"
    if isinstance(matrix.spec, HybridSpec | D4S4Spec) or matrix.spec.stored_layout == "output_input"
    if not isinstance(matrix.spec, HybridSpec) or matrix.spec.quantization_spec.type == "MLXSpec"
]


@pytest.mark.parametrize("case", ENGINE_CASES)
def test_stored_arrays_are_those_of_the_golden_file(case: str) -> None:
    for matrix in golden_matrices(case):
        found = {
            suffix: ArraySpec(dtype_name(array.dtype), array.shape)
            for suffix, array in matrix.arrays.items()
        }
        assert matrix.spec.problem(matrix.shape) is None
        assert found == matrix.spec.arrays(matrix.shape, "BF16", "group_major"), matrix.path


@pytest.mark.parametrize("case", ENGINE_CASES)
def test_metadata_are_those_of_the_golden_file(case: str) -> None:
    metadata: dict[str, str] = {}
    for matrix in golden_matrices(case):
        metadata |= matrix.spec.metadata(matrix.path)
    with container(case) as file:
        assert metadata == file.metadata


def test_golden_packages_hold_every_format_of_lalamo() -> None:
    specs = [matrix.spec for case in ENGINE_CASES for matrix in golden_matrices(case)]
    specs += [part for spec in specs if spec.type == "HybridSpec" for part in spec.parts.values()]
    formats = {spec.type for spec in specs}
    assert formats == {spec["type"] for spec in SPECS} - {"D4S4Spec"}
    assert len(QUANTISED_CASES) >= 18


@pytest.mark.parametrize("case", QUANTISED_CASES)
def test_golden_matrices_decode(case: str) -> None:
    for matrix in golden_matrices(case):
        reference = matrix.reference
        assert agrees(matrix.decoded(), reference), matrix.path
        assert agrees(matrix.decoded(np.float32), reference, np.float32), matrix.path
        assert agrees(in_rows(matrix).decoded(), reference), matrix.path


def in_rows(matrix: StoredMatrix) -> StoredMatrix:
    """The twin that uzu 0.5 reads: group parameters `[rows, groups]`, unpadded."""
    core, prefix = matrix.spec, ""
    if isinstance(core, HybridSpec):
        core, prefix = core.quantization_spec, "quantized."
    arrays = dict(matrix.arrays)
    if isinstance(core, IntSpec | MLXSpec) and core.layout == "output_input":
        rows = matrix.shape[-2]
        for name in {prefix + "scales", prefix + "biases"} & arrays.keys():
            arrays[name] = arrays[name].T[:rows]
        for name in {prefix + "zero_points"} & arrays.keys():
            lines = [
                [code_at(line, core.bits, row) for line in arrays[name]] for row in range(rows)
            ]
            arrays[name] = packed(lines, core.bits)
    return dataclasses.replace(matrix, arrays=arrays, planes="row_major")


def packed(lines: list[list[int]], bits: int) -> np.ndarray:
    """Lines of codes as bytes, by way of one large integer per line."""
    length = -(-len(lines[0]) * bits // 8)
    streams = [sum(code << i * bits for i, code in enumerate(line)) for line in lines]
    whole = b"".join(stream.to_bytes(length, "little") for stream in streams)
    return np.frombuffer(whole, np.uint8).reshape(len(lines), length)


@pytest.mark.parametrize("matrix", RAMPS, ids=repr)
def test_ramps_decode(matrix: StoredMatrix) -> None:
    assert agrees(matrix.decoded(), matrix.reference)


@pytest.mark.parametrize("matrix", ramps(lead=(2,)), ids=repr)
def test_experts_decode_one_by_one(matrix: StoredMatrix) -> None:
    experts = [
        StoredMatrix(
            f"expert {i}",
            matrix.spec,
            matrix.shape[1:],
            {suffix: array[i] for suffix, array in matrix.arrays.items()},
            matrix.planes,
        ).decoded()
        for i in range(2)
    ]
    assert not np.array_equal(experts[0], experts[1])
    assert agrees(matrix.decoded(), np.stack(experts))


@pytest.mark.parametrize("matrix", [m for m in IN_JAX if not is_rotated(m)], ids=repr)
def test_jax_decodes_like_numpy(matrix: StoredMatrix) -> None:
    """Bit for bit: operation by operation, both round the same sums and products."""
    in_numpy, in_jax = matrix.decoded(np.float32), matrix.decoded(jnp.float32, jnp)
    assert in_jax.dtype == np.float32
    if "LowRankSpec" in matrix.spec.to_json():  # a product: the order of its sums is free
        assert agrees(in_jax, in_numpy, np.float32)
    else:
        np.testing.assert_array_equal(in_jax, in_numpy)


@pytest.mark.parametrize("matrix", [m for m in IN_JAX if is_rotated(m)], ids=repr)
def test_jax_decodes_hadamard_transforms(matrix: StoredMatrix) -> None:
    """Compiled as a whole, which may fuse a product and a sum into one rounding."""
    decoded = compiled(matrix, jnp.float32)
    assert decoded.dtype == np.float32
    assert agrees(decoded, matrix.reference, np.float32)


def compiled(matrix: StoredMatrix, dtype: Any) -> jax.Array:
    def decode(arrays: dict[str, jax.Array]) -> jax.Array:
        return matrix.spec.decode(arrays, matrix.shape, matrix.planes, dtype, jnp)

    return jax.jit(decode)(matrix.arrays)


def test_jax_decodes_in_float64_and_under_jit() -> None:
    with jax.enable_x64(True):
        for case in ("llama-rht-all", "llama-other-specs"):
            matrix = golden_matrices(case)[-1]
            decoded = compiled(matrix, jnp.float64)
            assert decoded.dtype == np.float64
            assert agrees(decoded, matrix.reference)


def test_bfloat16_is_decoded_in_bfloat16() -> None:
    bfloat16 = NUMPY_DTYPES["BF16"]
    for matrix in golden_matrices("llama-int8"):
        decoded = matrix.decoded(bfloat16)
        assert decoded.dtype == bfloat16
        assert agrees(decoded, matrix.reference, bfloat16), matrix.path


def test_d4s4_rows_are_those_of_the_hand_made_table() -> None:
    stored = dict(np.load(GOLDEN / "d4s4-vector" / "vector.npz"))
    stored["row_scales"] = stored.pop("row_scales_f32").astype(NUMPY_DTYPES["BF16"])
    rows, input_scale = stored.pop("rows"), stored.pop("input_scale")
    del stored["before_hadamard"]
    spec = parse_spec(json.dumps(D4S4), "spec")
    matrix = StoredMatrix("table", spec, rows.shape, stored)
    found = {name: ArraySpec(dtype_name(a.dtype), a.shape) for name, a in stored.items()}
    assert found == spec.arrays(rows.shape, "BF16", "group_major")
    assert agrees(matrix.decoded(), matrix.reference)
    assert agrees(matrix.decoded() * float(input_scale), rows.astype(np.float64), np.float32)
