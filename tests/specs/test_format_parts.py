"""What weight formats are made of: bit streams, group planes, Hadamard blocks, Lloyd-Max tables."""

import hashlib
import json
from collections.abc import Iterator
from itertools import product
from typing import get_args

import jax.numpy as jnp
import numpy as np
import pytest
from independent_decoder import block_hadamard

from masu.specs.formats import parse_spec
from masu.specs.formats.hadamard import hadamard
from masu.specs.formats.lloyd_max_tables import Bits, GroupSize, bias_table, codebook
from masu.specs.formats.packing import pack, packed_length, packed_shape, unpack
from masu.specs.formats.planes import GroupPlane

CODEBOOKS_SHA256 = "0fa25b078e2f0c67f6f39034e910cf9cbfb3e532f6f4baa03d9612d55244802f"
BIASES_SHA256 = "d088eaeff947882a80cab759e5f90a02f63cb9909ce9aab029979da7436fa4ec"

WIDTHS = (1, 2, 3, 4, 6, 8)


def as_codes(*values: int) -> np.ndarray:
    return np.array(values, np.uint8)


@pytest.mark.parametrize(
    ("bits", "codes", "stream"),
    [
        (3, range(8), "88 c6 fa"),
        (6, (1, 2, 3, 63), "81 30 fc"),
        (1, (1, 0, 0, 0, 0, 0, 0, 1), "81"),
        (4, (0, 4, 6, 7, 8, 10, 13, 15), "40 76 a8 fd"),
        (4, (1, 2, 3), "21 03"),
        (8, (7, 255), "07 ff"),
    ],
)
def test_streams_of_the_format_description(bits: int, codes: list[int], stream: str) -> None:
    packed = pack(as_codes(*codes), bits)
    assert packed.tobytes().hex(" ") == stream
    assert unpack(packed, bits, len(codes)).tolist() == list(codes)


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13, 64])
def test_any_length_packs_like_one_large_integer(bits: int, count: int) -> None:
    codes = np.random.default_rng(count).integers(0, 2**bits, (2, 3, count), np.uint8)
    packed = pack(codes, bits)
    assert packed.dtype == np.uint8
    assert packed.shape == packed_shape(codes.shape, bits) == (2, 3, packed_length(count, bits))
    for line, stream in zip(codes.reshape(-1, count), packed.reshape(6, -1), strict=True):
        value = sum(int(code) << i * bits for i, code in enumerate(line))
        assert int.from_bytes(stream.tobytes(), "little") == value
    np.testing.assert_array_equal(unpack(packed, bits, count), codes)


@pytest.mark.parametrize("bits", WIDTHS)
def test_jax_packs_the_same_bytes(bits: int) -> None:
    codes = np.random.default_rng(bits).integers(0, 2**bits, (2, 13), np.uint8)
    packed = pack(jnp.asarray(codes), bits, jnp)
    np.testing.assert_array_equal(packed, pack(codes, bits))
    np.testing.assert_array_equal(unpack(packed, bits, 13, jnp), codes)


def test_transposed_plane_of_the_format_description() -> None:
    plane = GroupPlane.of((5, 96), 32, "output_input", "group_major")
    values = np.arange(15).reshape(5, 3)
    stored = plane.write(values)
    assert stored.tolist() == [
        [0, 3, 6, 9, 12, 0, 0, 0],
        [1, 4, 7, 10, 13, 0, 0, 0],
        [2, 5, 8, 11, 14, 0, 0, 0],
    ]
    assert plane.shape == stored.shape
    np.testing.assert_array_equal(plane.read(stored), values)
    zero_points = pack(plane.write((values + 1).astype(np.uint8)), 4)
    assert [row.tobytes().hex(" ") for row in zero_points] == [
        "41 a7 0d 00",
        "52 b8 0e 00",
        "63 c9 0f 00",
    ]


@pytest.mark.parametrize("rows", [1, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("planes", ["group_major", "row_major"])
@pytest.mark.parametrize("layout", ["output_input", "input_output"])
def test_planes_of_experts_read_back(rows: int, planes, layout) -> None:
    plane = GroupPlane.of((2, 3, rows, 64), 16, layout, planes)
    values = np.arange(6 * rows * 4, dtype=np.float32).reshape(2, 3, rows, 4)
    stored = plane.write(values)
    is_transposed = (planes, layout) == ("group_major", "output_input")
    assert stored.shape == plane.shape
    assert stored.shape[2:] == ((4, 4 if rows <= 4 else 8) if is_transposed else (rows, 4))
    np.testing.assert_array_equal(plane.read(stored), values)
    np.testing.assert_array_equal(plane.write(jnp.asarray(values), jnp), stored)


@pytest.mark.parametrize("block", [32, 64, 128])
@pytest.mark.parametrize("axis", [-1, -2])
def test_hadamard_is_sylvesters_and_its_own_inverse(block: int, axis: int) -> None:
    values = np.random.default_rng(block).standard_normal((3, 256, 256))
    turned = hadamard(values, block, axis)
    matrix = block_hadamard(256, block)
    expected = values @ matrix if axis == -1 else matrix @ values
    np.testing.assert_allclose(turned, expected, rtol=0, atol=1e-13)  # sums of 128 float64
    np.testing.assert_allclose(hadamard(turned, block, axis), values, rtol=0, atol=1e-14)


def test_jax_transforms_bit_for_bit() -> None:
    values = np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)
    np.testing.assert_array_equal(hadamard(jnp.asarray(values), 8, xp=jnp), hadamard(values, 8))


def test_second_column_of_hadamard_alternates() -> None:
    column = hadamard(np.eye(32)[1], 32)
    np.testing.assert_allclose(column, np.tile([1, -1], 16) / np.sqrt(32), rtol=1e-15)


ROW = np.array([-0.9, -0.35, 0, 0.1, 0.25, 0.6, 1.1, 1.5])
"""What the three rows of the format description approximate, within half a step."""


@pytest.mark.parametrize(
    ("spec", "stream", "parameters", "step"),
    [
        (
            {"type": "IntSpec", "bits": 4, "group_size": 8, "is_symmetric": False},
            "40 76 a8 fd",
            {"scales": 0.16, "zero_points": 6},
            [-6, -2, 0, 1, 2, 4, 7, 9],
        ),
        (
            {"type": "IntSpec", "bits": 4, "group_size": 8, "is_symmetric": True},
            "64 88 b9 fd",
            {"scales": 1.5 / 7},
            [-4, -2, 0, 0, 1, 3, 5, 7],
        ),
        (
            {"type": "MLXSpec", "bits": 4, "group_size": 8},
            "30 66 97 fc",
            {"scales": 0.16, "biases": -0.9},
            [0, 3, 6, 6, 7, 9, 12, 15],
        ),
    ],
)
def test_rows_of_the_format_description(spec, stream, parameters, step) -> None:
    arrays = {suffix: np.array([[value]]) for suffix, value in parameters.items()}
    arrays["weights"] = np.frombuffer(bytes.fromhex(stream), np.uint8)[None]
    if "zero_points" in arrays:
        arrays["zero_points"] = arrays["zero_points"].astype(np.uint8)
    spec = parse_spec(json.dumps({**spec, "layout": "output_input"}), "spec")
    row = spec.decode(arrays, (1, 8), "row_major", np.float64)[0]
    expected = np.array(step) * parameters["scales"] + parameters.get("biases", 0)
    np.testing.assert_allclose(row, expected, rtol=1e-15)
    assert np.abs(row - ROW).max() <= parameters["scales"] / 2 + 1e-12


def test_mxfp4_group_of_the_format_description() -> None:
    fields = {"type": "MicrofloatSpec", "bits": 4, "group_size": 8, "scale_mode": "mxfp4"}
    spec = parse_spec(json.dumps({**fields, "layout": "output_input"}), "spec")
    arrays = {
        "weights": np.frombuffer(bytes.fromhex("90 d3 60 19"), np.uint8)[None],
        "scales": np.array([[128]], np.uint8),
        "global_scale": np.float32(1),
    }
    row = spec.decode(arrays, (1, 8), "group_major", np.float32)[0]
    assert row.tolist() == [0, -1, 3, -6, 0, 8, -1, 1]


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
def test_mxfp4_scales_are_powers_of_two(xp) -> None:
    """Exponents 1 to 253; at 254 a code above 2 is beyond float32, as the format has it."""
    fields = {"type": "MicrofloatSpec", "bits": 4, "group_size": 2, "scale_mode": "mxfp4"}
    spec = parse_spec(json.dumps({**fields, "layout": "output_input"}), "spec")
    exponents = np.arange(1, 253, dtype=np.uint8)
    arrays = {
        "weights": xp.full((252, 1), 0x42, xp.uint8),  # codes 2 and 4: the values 1 and 2
        "scales": xp.asarray(exponents[:, None]),
        "global_scale": xp.asarray(1, xp.float32),
    }
    matrix = spec.decode(arrays, (252, 2), "group_major", xp.float32, xp)
    np.testing.assert_array_equal(matrix[:, 0], 2.0 ** (exponents - 127.0))
    np.testing.assert_array_equal(matrix[:, 1], 2.0 ** (exponents - 126.0))


def as_csv(tables: Iterator[tuple[int, int, int | None, np.ndarray]]) -> bytes:
    """The tables written out as lalamo's CSV files are."""
    lines = ["bits,group_size,bias_bits,index,value\n"]
    for bits, size, bias, table in tables:
        key = f"{bits},{size},{'' if bias is None else bias}"
        lines += [f"{key},{index},{value:.17g}\n" for index, value in enumerate(table.tolist())]
    return "".join(lines).encode()


def test_tables_have_the_checksums_of_lalamos_files() -> None:
    sizes, widths = get_args(GroupSize), get_args(Bits)
    codebooks = as_csv(
        (bits, size, bias, codebook(bits, size, bias))
        for size, bits, bias in product(sizes, widths, (None, *widths))
    )
    biases = as_csv(
        (bits, size, bias, bias_table(bits, size, bias))
        for size, bits, bias in product(sizes, widths, widths)
    )
    assert hashlib.sha256(codebooks).hexdigest() == CODEBOOKS_SHA256
    assert hashlib.sha256(biases).hexdigest() == BIASES_SHA256


def test_a_table_of_the_format_description() -> None:
    half = [0.047463, 0.143644, 0.243424, 0.350411, 0.467872, 0.601649, 0.762672, 0.971997]
    table = codebook(4, 32, None)
    np.testing.assert_allclose(table[8:], half, atol=5e-7)
    np.testing.assert_array_equal(table[:8], -table[:7:-1])


def test_tables_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        codebook(4, 32, None)[0] = 0
