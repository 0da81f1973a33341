"""Matrices to decode: those of the golden packages, and synthetic ones full of distinct numbers."""

import json
import re
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import ml_dtypes
import numpy as np
from golden import ENGINE_CASES, GOLDEN
from independent_decoder import decode as independent

from masu.specs.container import Container
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.formats import Planes, WeightFormat, parse_spec
from masu.specs.tensors import ArraySpec, Shape


@dataclass(frozen=True, repr=False)
class StoredMatrix:
    """One matrix as a file keeps it."""

    path: str
    spec: WeightFormat
    shape: Shape
    arrays: dict[str, np.ndarray]
    planes: Planes = "group_major"

    def __repr__(self) -> str:
        values = re.findall(r": \"?(\w+)", self.spec.to_json())
        return "-".join([*values, self.planes])

    def decoded(self, dtype: Any = np.float64, xp: Any = np) -> Any:
        arrays = {suffix: xp.asarray(array) for suffix, array in self.arrays.items()}
        return self.spec.decode(arrays, self.shape, self.planes, dtype, xp)

    @cached_property
    def reference(self) -> np.ndarray:
        """The same matrix by the independent decoder, float64."""
        spec = json.loads(self.spec.to_json())
        return independent(self.arrays, spec, self.shape, self.planes)


def agrees(decoded: Any, reference: np.ndarray, dtype: Any = np.float64) -> bool:
    """Equal up to the rounding of `dtype`.

    An element is made by three roundings at most, by seven more on each side with a Hadamard
    transform (block 64), and by as many as the rank in an adapter (8): under 32 in all, each of
    half a unit in the last place of numbers hardly larger than the largest element.
    """
    unit = float(ml_dtypes.finfo(dtype).eps) / 2
    distance = np.abs(np.asarray(decoded, np.float64) - reference).max()
    return bool(distance <= 32 * unit * np.abs(reference).max())


def container(case: str) -> Container:
    return Container.open(GOLDEN / case / "engine" / "model.safetensors")


@cache
def golden_matrices(case: str) -> tuple[StoredMatrix, ...]:
    """Every matrix of a golden package, parts of hybrids only inside their hybrids."""
    with container(case) as file:
        paths = [key.removesuffix(".spec") for key in file.metadata]
        outer = [path for path in paths if path.rpartition(".")[0] not in paths]
        return tuple(_read(file, path) for path in outer)


def _read(file: Container, path: str) -> StoredMatrix:
    prefix = f"{path}."
    names = [name for name in file.tensors if name.startswith(prefix)]
    arrays = {name.removeprefix(prefix): file.read(name) for name in names}
    spec = json.loads(file.metadata[f"{path}.spec"])
    shape = _stored_shape(spec, arrays)
    return StoredMatrix(path, parse_spec(json.dumps(spec), path), shape, arrays)


def _stored_shape(spec: dict, arrays: dict[str, np.ndarray]) -> Shape:
    """From the codes: no golden matrix has a last byte that is only partly used."""
    codes = arrays.get("quantized.weights", arrays.get("weights"))
    assert codes is not None
    bits = spec.get("quantization_spec", spec).get("bits", 8)
    return (*codes.shape[:-1], codes.shape[-1] * 8 // bits)


def is_quantised(case: str) -> bool:
    with container(case) as file:
        return any(
            parse_spec(text, key).type != "FullPrecisionSpec" for key, text in file.metadata.items()
        )


QUANTISED_CASES = [case for case in ENGINE_CASES if is_quantised(case)]


def ramp(spec: WeightFormat, shape: Shape, planes: Planes) -> StoredMatrix:
    """Arrays filled with ramps, padding included, so that no two neighbours are alike."""
    arrays = {
        suffix: _ramp_array(suffix, array)
        for suffix, array in spec.arrays(shape, "F32", planes).items()
    }
    return StoredMatrix("ramp", spec, shape, arrays, planes)


def _ramp_array(suffix: str, array: ArraySpec) -> np.ndarray:
    count = np.arange(int(np.prod(array.shape, dtype=int)))
    if suffix.endswith("_signs"):
        values = np.where(count * count % 7 < 3, 1, -1)
    elif array.dtype == "F8_E4M3":  # every finite positive number, as bytes
        values = (count % 126 + 1).astype(np.uint8).view(NUMPY_DTYPES[array.dtype])
    elif array.dtype == "U8":
        is_exponent = suffix.endswith("scales")
        values = 120 + count % 16 if is_exponent else count * 37 + count // 7 + 11
    elif array.dtype == "I8":
        values = count - 128
    else:
        values = (count + 1) / 8
    return values.astype(NUMPY_DTYPES[array.dtype]).reshape(array.shape)


def _laid(**fields: Any) -> list[dict]:
    """A spec in both layouts, which stands last."""
    return [{**fields, "layout": layout} for layout in ("output_input", "input_output")]


def _hybrids(core: dict, adapter: dict | None) -> list[dict]:
    """Hybrids around a core: each mode once, each with another block, and one without signs."""
    modes = ((128, "input"), (64, "output"), (32, "input_output"), (None, "input"))
    return [
        {
            "type": "HybridSpec",
            "quantization_spec": core,
            "adapter_spec": adapter,
            "incoherence_block_size": block,
            "incoherence_processing_mode": mode,
        }
        for block, mode in modes
    ]


FULL = _laid(type="FullPrecisionSpec")
INTEGER = [
    spec
    for bits in (4, 8)
    for symmetric in (True, False)
    for spec in _laid(type="IntSpec", bits=bits, group_size=32, is_symmetric=symmetric)
]
MLX = [spec for bits in (1, 4, 8) for spec in _laid(type="MLXSpec", bits=bits, group_size=32)]
MICROFLOAT = [
    spec
    for size, mode in ((16, "mxfp4"), (32, "mxfp4"), (16, "nvfp4"))
    for spec in _laid(type="MicrofloatSpec", bits=4, group_size=size, scale_mode=mode)
]
LLOYD_MAX = [
    spec
    for bits, bias in ((2, 8), (3, 4), (4, None), (6, 3), (8, 6))
    for spec in _laid(type="LloydMaxSpec", bits=bits, group_size=16, bias_bits=bias)
]
LOW_RANK = {"type": "LowRankSpec", "rank": 3}
D4S4 = {"type": "D4S4Spec", "layout": "input_output"}
HYBRID = [
    spec
    for core, adapter in (
        *((core, None) for core in INTEGER[2:4]),
        *((core, LOW_RANK) for core in MLX[2:4]),
        (MICROFLOAT[0], FULL[1]),  # an adapter that lies the other way
    )
    for spec in _hybrids(core, adapter)
]
SPECS = [*FULL, *INTEGER, *MLX, *MICROFLOAT, *LLOYD_MAX, LOW_RANK, D4S4, *HYBRID]
"""One spec of every kind worth telling apart, as JSON objects."""


def shape_for(spec: WeightFormat) -> Shape:
    """A small matrix with an odd number of rows where the format allows it."""
    match spec.type:
        case "D4S4Spec":
            return (3, 256)
        case "HybridSpec":
            return (64, 128) if spec.stored_layout == "output_input" else (128, 64)
    return (5, 64)
