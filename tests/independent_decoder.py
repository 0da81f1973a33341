"""Decoders of every weight format, written from the format's description as plain loops.

They share no code with masu: each takes the stored arrays by suffix, the spec as parsed JSON and
the stored shape, and returns float64. Bytes become integers, codes are cut out of them by shifts,
and a Hadamard transform is a product with its matrix.
"""

import itertools
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]
Shape = tuple[int, ...]

LLOYD_MAX_TABLES = Path(__file__).parents[1] / "specs" / "formats" / "lloyd_max_tables.npz"


def decode(arrays: Arrays, spec: dict, shape: Shape, planes: str) -> np.ndarray:
    """The matrix `[..., rows, columns]`; every leading index is decoded on its own."""
    if len(shape) == 2:
        return DECODERS[spec["type"]](arrays, spec, shape, planes)
    experts = [
        decode({suffix: array[i] for suffix, array in arrays.items()}, spec, shape[1:], planes)
        for i in range(shape[0])
    ]
    return np.stack(experts)


def full_precision(arrays: Arrays, spec: dict, shape: Shape, planes: str) -> np.ndarray:
    return arrays["weights"].astype(np.float64)


def integer(arrays: Arrays, spec: dict, shape: Shape, planes: str) -> np.ndarray:
    bits, is_turned = spec["bits"], is_transposed(spec, planes)

    def value(row: int, group: int, code: int) -> float:
        zero = 2 ** (bits - 1)
        if not spec["is_symmetric"]:
            line, place = (group, row) if is_turned else (row, group)
            zero = code_at(arrays["zero_points"][line], bits, place)
        return (code - zero) * parameter(arrays["scales"], row, group, is_turned)

    return from_codes(arrays["weights"], spec, shape, value)


def mlx(arrays: Arrays, spec: dict, shape: Shape, planes: str) -> np.ndarray:
    is_turned = is_transposed(spec, planes)

    def value(row: int, group: int, code: int) -> float:
        scale = parameter(arrays["scales"], row, group, is_turned)
        return code * scale + parameter(arrays["biases"], row, group, is_turned)

    return from_codes(arrays["weights"], spec, shape, value)


def microfloat(arrays: Arrays, spec: dict, shape: Shape, planes: str) -> np.ndarray:
    table = [0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6]
    overall = float(arrays["global_scale"])

    def value(row: int, group: int, code: int) -> float:
        scale = float(arrays["scales"][row, group])
        if spec["scale_mode"] == "mxfp4":
            scale = 2.0 ** (scale - 127)
        return table[code] * scale * overall

    return from_codes(arrays["weights"], spec, shape, value)


def lloyd_max(arrays: Arrays, spec: dict, shape: Shape, planes: str) -> np.ndarray:
    codebook, biases = lloyd_max_tables(spec["bits"], spec["group_size"], spec["bias_bits"])

    def value(row: int, group: int, code: int) -> float:
        level = codebook[code]
        if spec["bias_bits"] is not None:
            level -= biases[code_at(arrays["bias_indices"][row], spec["bias_bits"], group)]
        return level * float(arrays["scales"][row, group])

    return from_codes(arrays["weights"], spec, shape, value)


def low_rank(arrays: Arrays, spec: dict, shape: Shape, planes: str) -> np.ndarray:
    up = arrays["up_projection"].astype(np.float64)
    down = arrays["down_projection"].astype(np.float64)
    terms = [np.outer(up[:, channel], down[channel]) for channel in range(spec["rank"])]
    return np.add.reduce(terms)


def hybrid(arrays: Arrays, spec: dict, shape: Shape, planes: str) -> np.ndarray:
    inner, adapter = spec["quantization_spec"], spec["adapter_spec"]
    mode, block = spec["incoherence_processing_mode"], spec["incoherence_block_size"]
    is_table = inner.get("layout") == "input_output"
    weight = decode(below("quantized", arrays), inner, shape, planes)
    weight = weight.T if is_table else weight  # from here on [out, in]
    if block is not None and mode != "output":
        signs = arrays["incoherence_signs.input_signs"].astype(np.float64)
        weight = weight @ block_hadamard(weight.shape[1], block) @ np.diag(signs)
    if adapter is not None:
        is_turned = adapter.get("layout") == "input_output"
        shape = weight.T.shape if is_turned else weight.shape
        extra = decode(below("adapter", arrays), adapter, shape, planes)
        weight = weight + (extra.T if is_turned else extra)
    if block is not None and mode != "input":
        signs = arrays["incoherence_signs.output_signs"].astype(np.float64)
        weight = np.diag(signs) @ block_hadamard(weight.shape[0], block) @ weight
    return weight.T if is_table else weight


def d4s4(arrays: Arrays, spec: dict, shape: Shape, planes: str) -> np.ndarray:
    rows, columns = shape
    ladder, table = arrays["ladder"].astype(np.float64), arrays["table"].astype(np.float64)
    flat = arrays["ladder_indices"].reshape(-1)
    values = np.empty(shape)
    for row, column in itertools.product(range(rows), range(columns)):
        step = row * (columns // 64) + column // 64
        byte = int(flat[step // 2])
        index = byte & 15 if step % 2 == 0 else byte >> 4
        entry = table[arrays["codes"][row, column // 4], column % 4]
        values[row, column] = float(arrays["row_scales"][row]) * ladder[index] * entry
    factors = arrays["output_hadamard_factors"].astype(np.float64)
    return values @ block_hadamard(columns, 32) @ np.diag(factors)


DECODERS = {
    "FullPrecisionSpec": full_precision,
    "IntSpec": integer,
    "MLXSpec": mlx,
    "MicrofloatSpec": microfloat,
    "LloydMaxSpec": lloyd_max,
    "LowRankSpec": low_rank,
    "HybridSpec": hybrid,
    "D4S4Spec": d4s4,
}


def rounded_row(row: np.ndarray) -> list[float]:
    """What a row of activations is rounded to where that is asked for: int8, 32 to a scale."""
    if not np.isfinite(row.astype(np.float32)).all():
        return [float(value) for value in row]
    found = []
    for start in range(0, len(row), 32):
        run = [np.float32(value) for value in row[start : start + 32]]
        scale = max(map(abs, run)) / np.float32(127)
        for value in run:
            # Python's `round` takes the even one of two that are as near.
            whole = round(float(value / scale)) if scale >= np.float32(2.0**-126) else 0
            found.append(float(np.float32(whole) * scale))
    return found


def from_codes(packed: np.ndarray, spec: dict, shape: Shape, value: Any) -> np.ndarray:
    """`value(row, group, code)` of every element; one call per distinct code of a group."""
    rows, columns = shape
    bits, size = spec["bits"], spec["group_size"]
    matrix = np.empty(shape)
    for row, group in itertools.product(range(rows), range(columns // size)):
        known: dict[int, float] = {}
        for column in range(group * size, (group + 1) * size):
            code = code_at(packed[row], bits, column)
            if code not in known:
                known[code] = value(row, group, code)
            matrix[row, column] = known[code]
    return matrix


def code_at(line: np.ndarray, bits: int, index: int) -> int:
    """Code `index` of a little-endian bit stream: it begins at bit `index * bits`."""
    first = index * bits // 8
    window = int.from_bytes(line[first : first + 2].tobytes(), "little")
    return window >> index * bits % 8 & 2**bits - 1


def is_transposed(spec: dict, planes: str) -> bool:
    return spec["layout"] == "output_input" and planes == "group_major"


def parameter(plane: np.ndarray, row: int, group: int, is_turned: bool) -> float:
    return float(plane[group, row] if is_turned else plane[row, group])


def below(folder: str, arrays: Arrays) -> dict[str, np.ndarray]:
    prefix = f"{folder}."
    return {name[len(prefix) :]: a for name, a in arrays.items() if name.startswith(prefix)}


@cache
def block_hadamard(channels: int, block: int) -> np.ndarray:
    """Sylvester's matrix by its parity rule, over sqrt(block), down the diagonal."""
    matrix = np.zeros((channels, channels))
    for i, j in itertools.product(range(channels), range(channels)):
        if i // block == j // block:
            ones = (i % block & j % block).bit_count()
            matrix[i, j] = (-1) ** ones / np.sqrt(block)
    return matrix


@cache
def lloyd_max_tables(bits: int, group_size: int, bias_bits: int | None) -> tuple[list, list]:
    """Codebook and biases, found by walking through the file's tables in their order."""
    figures = np.load(LLOYD_MAX_TABLES)
    wanted = (group_size, bits, bias_bits)
    codebooks, biases = figures["codebooks"].tolist(), figures["biases"].tolist()
    widths = (2, 3, 4, 6, 8)
    for key in itertools.product((2, 4, 16, 32, 64, 128), widths, (None, *widths)):
        codebook, codebooks = codebooks[: 2 ** key[1]], codebooks[2 ** key[1] :]
        bias_count = 0 if key[2] is None else 2 ** key[2]
        table, biases = biases[:bias_count], biases[bias_count:]
        if key == wanted:
            return codebook, table
    raise KeyError(wanted)
