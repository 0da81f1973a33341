"""How a stored matrix is described to the kernels: addresses and sizes in 32 words of 32 bits.

The words are an operand like any other, so that layers that are alike share one program. Their
memory holds on to the arrays that they point to, for as long as XLA may read it.
"""

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from masu.runtime.weights import Weight
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.formats.full_precision import FullPrecisionSpec
from masu.specs.formats.hybrid import HybridSpec
from masu.specs.formats.integer import IntSpec
from masu.specs.formats.lloyd_max import LloydMaxSpec
from masu.specs.formats.lloyd_max_tables import bias_table, codebook
from masu.specs.formats.microfloat import E2M1, MicrofloatSpec
from masu.specs.formats.mlx import MLXSpec
from masu.specs.formats.planes import GroupPlane
from masu.specs.tensors import Shape

WORDS = 32

MATRIX = np.dtype(
    [
        *((name, "<u8") for name in ("weights", "scales", "offsets", "levels")),
        *((name, "<u8") for name in ("scale_values", "offset_values")),
        *((name, "<u8") for name in ("input_signs", "output_signs")),
        *((name, "<u4") for name in ("rows", "columns", "row_bytes", "kind", "group_size")),
        *((name, "<u4") for name in ("param", "mode", "offset_kind", "row_step", "group_step")),
        *((name, "<u4") for name in ("offset_bits", "offset_line", "offset_is_by_group")),
        ("offset", "<f4"),
        *((name, "<u4") for name in ("input_block", "output_block")),
    ]
)
"""`Matrix` of cpp/matrix.h, field by field."""

KINDS = {np.dtype(np.float32): 0, np.dtype(np.float16): 1, NUMPY_DTYPES["BF16"]: 2}
CODES = {1: 3, 4: 4, 8: 5}
TABLE = 3
AFFINE, CENTRED = 0, 1
CONSTANT, LIKE_SCALES, PACKED, PACKED_TABLE = range(4)


class Unserved(Exception):
    """The kernels have no word for this; the message says for what."""


def described(weight: Weight) -> np.ndarray:
    """The words of a stored matrix, uint32 `[32]`; of a stack of matrices, `[experts, 32]`.

    Raises:
        Unserved: no kernel reads this format, or these sizes.
    """
    *lead, rows, columns = weight.shape
    if len(lead) > 1:
        raise Unserved(f"{len(lead)} leading axes")
    count = lead[0] if lead else 1
    kept: list[Any] = []
    records = [
        _record(weight, _at(weight.arrays, place if lead else None), (rows, columns), kept)
        for place in range(count)
    ]
    words = aligned(count * MATRIX.itemsize, kept)
    words.view(MATRIX)[:] = np.concatenate(records)
    words = words.view(np.uint32)
    return words.reshape(count, WORDS) if lead else words


def _at(arrays: Mapping[str, np.ndarray], place: int | None) -> Mapping[str, np.ndarray]:
    return arrays if place is None else {name: array[place] for name, array in arrays.items()}


def aligned(size: int, kept: list[Any]) -> np.ndarray:
    """Bytes at an address that XLA takes over without a copy, which hold on to `kept`."""
    memory: Any = (ctypes.c_uint8 * (size + 64))()
    memory.kept = kept  # numpy keeps what it views, and XLA keeps what numpy gives it
    start = -ctypes.addressof(memory) % 64
    return np.frombuffer(memory, np.uint8)[start : start + size]


def _record(
    weight: Weight, arrays: Mapping[str, np.ndarray], shape: Shape, kept: list[Any]
) -> np.ndarray:
    record = np.zeros(1, MATRIX)
    record["rows"], record["columns"] = shape
    _fill(record, _Stored(weight, arrays, shape, kept))
    return record


class _Stored:
    """One matrix, and the list of what its record points to."""

    def __init__(
        self, weight: Weight, arrays: Mapping[str, np.ndarray], shape: Shape, kept: list[Any]
    ) -> None:
        self.weight, self.arrays, self.shape, self.kept = weight, arrays, shape, kept

    def address(self, array: np.ndarray) -> int:
        """Of an array in memory as it lies in the file."""
        array = np.ascontiguousarray(array)
        self.kept.append(array)
        return array.ctypes.data


def _fill(record: np.ndarray, stored: _Stored) -> None:
    match stored.weight.format:
        case FullPrecisionSpec():
            values = stored.arrays["weights"]
            if values.dtype not in KINDS:
                raise Unserved(f"weights of type {values.dtype}")
            record["weights"], record["kind"] = stored.address(values), KINDS[values.dtype]
            record["row_bytes"] = values.shape[-1] * values.itemsize
        case MLXSpec(bits=bits) | IntSpec(bits=bits):
            _fill_codes(record, stored, bits)
            _fill_planes(record, stored)
        case LloydMaxSpec(bits=bits):
            _fill_lloyd_max(record, stored, bits)
        case MicrofloatSpec():
            _fill_microfloat(record, stored)
        case HybridSpec():
            _fill_hybrid(record, stored)
        case other:
            raise Unserved(other.type)


def _fill_codes(record: np.ndarray, stored: _Stored, bits: int) -> None:
    size = stored.weight.format.group_size  # type: ignore[union-attr]
    if bits not in CODES or size < 16 or size & (size - 1):
        raise Unserved(f"{stored.weight.format.type} with {bits} bits in groups of {size}")
    codes = stored.arrays["weights"]
    record["weights"], record["kind"] = stored.address(codes), CODES[bits]
    record["row_bytes"], record["group_size"] = codes.shape[-1], size
    if bits == 4:
        _set_levels(record, stored, np.arange(16))


def _set_levels(record: np.ndarray, stored: _Stored, levels: Any) -> None:
    record["levels"] = stored.address(np.asarray(levels, np.float32))


def _fill_planes(record: np.ndarray, stored: _Stored) -> None:
    """Scales and offsets of a format whose planes lie in either order."""
    spec, arrays = stored.weight.format, stored.arrays
    assert isinstance(spec, MLXSpec | IntSpec)
    plane = GroupPlane.of(stored.shape, spec.group_size, spec.layout, stored.weight.planes)
    scales = arrays["scales"]
    record["scales"], record["param"] = stored.address(scales), KINDS[scales.dtype]
    line = plane.shape[-1]
    record["row_step"], record["group_step"] = (1, line) if plane.transposed else (line, 1)
    if isinstance(spec, MLXSpec):
        record["mode"], record["offset_kind"] = AFFINE, LIKE_SCALES
        record["offsets"] = stored.address(arrays["biases"])
        return
    record["mode"], record["offset_kind"] = CENTRED, CONSTANT
    record["offset"] = 2 ** (spec.bits - 1)
    if not spec.is_symmetric:
        _set_packed(record, stored, arrays["zero_points"], spec.bits)
        record["offset_kind"], record["offset_is_by_group"] = PACKED, plane.transposed


def _set_packed(record: np.ndarray, stored: _Stored, packed: np.ndarray, bits: int) -> None:
    record["offsets"], record["offset_bits"] = stored.address(packed), bits
    record["offset_line"] = packed.shape[-1]


def _set_narrow_scales(
    record: np.ndarray, stored: _Stored, dtype: np.dtype, factor: np.ndarray | float
) -> None:
    """Scales of one byte, by way of the value of each byte."""
    scales = stored.arrays["scales"]
    values = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32) * np.float32(factor)
    record["scales"], record["param"] = stored.address(scales), TABLE
    record["scale_values"] = stored.address(values.astype(np.float32))
    record["row_step"], record["group_step"] = scales.shape[-1], 1
    record["mode"] = CENTRED


def _fill_lloyd_max(record: np.ndarray, stored: _Stored, bits: int) -> None:
    spec = stored.weight.format
    assert isinstance(spec, LloydMaxSpec)
    if bits != 4 or spec.bias_bits in (3, 6):
        raise Unserved(f"LloydMax with {bits} bits and {spec.bias_bits} bias bits")
    _fill_codes(record, stored, bits)
    _set_levels(record, stored, codebook(spec.bits, spec.group_size, spec.bias_bits))
    _set_narrow_scales(record, stored, NUMPY_DTYPES["F8_E4M3"], 1.0)
    if spec.bias_bits is not None:
        table = bias_table(spec.bits, spec.group_size, spec.bias_bits)
        _set_packed(record, stored, stored.arrays["bias_indices"], spec.bias_bits)
        record["offset_kind"] = PACKED_TABLE
        record["offset_values"] = stored.address(np.asarray(table, np.float32))


def _fill_microfloat(record: np.ndarray, stored: _Stored) -> None:
    spec = stored.weight.format
    assert isinstance(spec, MicrofloatSpec)
    _fill_codes(record, stored, spec.bits)
    _set_levels(record, stored, E2M1)
    dtype = NUMPY_DTYPES["F8_E8M0" if spec.scale_mode == "mxfp4" else "F8_E4M3"]
    _set_narrow_scales(record, stored, dtype, stored.arrays["global_scale"].astype(np.float32))


def _fill_hybrid(record: np.ndarray, stored: _Stored) -> None:
    """The core's own record, with the signs and transforms around it."""
    spec, arrays = stored.weight.format, stored.arrays
    assert isinstance(spec, HybridSpec)
    is_table = spec.stored_layout == "input_output"
    if spec.adapter_spec is not None:
        raise Unserved("HybridSpec with an adapter")
    core = {
        name.removeprefix("quantized."): array
        for name, array in arrays.items()
        if name.startswith("quantized.")
    }
    inner = Weight(spec.quantization_spec, core, stored.shape, stored.weight.planes)
    _fill(record, _Stored(inner, core, stored.shape, stored.kept))
    for side in ("input", "output"):
        if (block := spec.block(side)) is None:
            continue
        # A table's rows are its input channels: what it calls output runs along its columns.
        place = "input" if (side == "input") != is_table else "output"
        if place == "output" and (is_table or block != 32):
            raise Unserved(f"HybridSpec with blocks of {block} across rows")
        record[f"{place}_block"] = block
        record[f"{place}_signs"] = stored.address(arrays[f"incoherence_signs.{side}_signs"])
