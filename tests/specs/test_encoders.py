"""Every weight format encodes: the right arrays, near enough to the values, for any chunking."""

import json
from pkgutil import resolve_name
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from encoder_bounds import encoded, is_within_bound, ramp, spec_of
from format_cases import SPECS, StoredMatrix, agrees, shape_for

from masu.specs.dtypes import NUMPY_DTYPES, dtype_name
from masu.specs.formats import HybridSpec, WeightFormat, grouped, hadamard
from masu.specs.formats.grouped import GroupedFormat
from masu.specs.formats.integer import IntSpec
from masu.specs.formats.lloyd_max import LloydMaxParameters
from masu.specs.formats.lloyd_max_tables import codebook
from masu.specs.formats.microfloat import MicrofloatParameters
from masu.specs.formats.planes import GroupPlane
from masu.specs.tensors import ArraySpec, Shape

# D4S4's encoder chooses its own codebook; it has tests of its own.
FORMATS = [spec for spec in map(spec_of, SPECS) if spec.type != "D4S4Spec"]
PLANES = ("group_major", "row_major")


def name(spec: WeightFormat) -> str:
    return repr(StoredMatrix("", spec, (), {})).removesuffix("-group_major")


def grouped_spec(**fields: Any) -> GroupedFormat:
    spec = spec_of({**fields, "layout": "output_input"})
    assert isinstance(spec, GroupedFormat)
    return spec


every_format = pytest.mark.parametrize("spec", FORMATS, ids=name)


def shapes(spec: WeightFormat) -> list[Shape]:
    """With odd rows where the format allows it, and experts."""
    rows, columns = shape_for(spec)
    other = (rows * 2, columns) if isinstance(spec, HybridSpec) else (7, columns * 3)
    return [(rows, columns), other, (2, rows, columns)]


@every_format
def test_encoded_values_are_near(spec: WeightFormat) -> None:
    for shape in shapes(spec):
        values = ramp(shape)
        for planes in PLANES:
            matrix = encoded(spec, values, planes=planes)
            announced = spec.arrays(shape, "F32", planes)
            assert {k: described(a) for k, a in matrix.arrays.items()} == announced
            assert agrees(matrix.decoded(), matrix.reference)
            assert is_within_bound(matrix, values)


def described(array: np.ndarray) -> ArraySpec:
    return ArraySpec(dtype_name(array.dtype), array.shape)


@every_format
@pytest.mark.parametrize("dtype", ["BF16", "F16"])
def test_codes_suit_the_parameters_as_they_are_stored(spec: WeightFormat, dtype: str) -> None:
    """In 8 bits the rounding of a bfloat16 scale moves the last code by half a step."""
    values = ramp(shape_for(spec)).astype(NUMPY_DTYPES[dtype]).astype(np.float32)
    matrix = encoded(spec, values, dtype)
    assert {k: described(a) for k, a in matrix.arrays.items()} == spec.arrays(
        values.shape, dtype, "group_major"
    )
    assert is_within_bound(matrix, values, dtype)


@every_format
def test_chunks_of_rows_join_to_the_bytes_of_the_whole(
    spec: WeightFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, columns = shape_for(spec)
    values = ramp((*((2,) if isinstance(spec, HybridSpec) else ()), rows + 4, columns))
    if spec.problem(values.shape) is not None:
        values = ramp((2, rows, columns))
    for planes in PLANES:
        whole = spec.encode(values, "BF16", planes)
        if (multiple := spec.row_multiple) is not None:
            cuts = [values[..., :multiple, :], values[..., multiple:, :]]
            same_bytes(spec.join([spec.encode(c, "BF16", planes) for c in cuts], planes), whole)
        with monkeypatch.context() as patch:
            patch.setattr(grouped, "CHUNK", 1)
            patch.setattr(hadamard, "CHUNK", 1)
            same_bytes(spec.encode(values, "BF16", planes), whole)


def same_bytes(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert found.keys() == wanted.keys()
    for suffix, array in wanted.items():
        assert described(found[suffix]) == described(array), suffix
        assert found[suffix].tobytes() == array.tobytes(), suffix


def test_formats_that_need_all_rows_say_so() -> None:
    whole = {name(spec) for spec in FORMATS if spec.row_multiple is None}
    assert any("nvfp4" in each for each in whole)
    assert any("LowRankSpec" in each for each in whole)
    for spec in FORMATS:
        if isinstance(spec, HybridSpec) and spec.incoherence_processing_mode == "input_output":
            assert spec.row_multiple is None
        if isinstance(spec, GroupedFormat) and "nvfp4" not in name(spec):
            assert spec.row_multiple is not None


@every_format
def test_bfloat16_values_are_those_of_their_float32_copy(spec: WeightFormat) -> None:
    values = ramp(shape_for(spec)).astype(ml_dtypes.bfloat16)
    wanted = spec.encode(values.astype(np.float32), "BF16", "group_major")
    same_bytes(spec.encode(values, "BF16", "group_major"), wanted)


@every_format
@pytest.mark.parametrize("dtype", ["F32", "BF16", "F16"])
def test_zeros_stay_zeros(spec: WeightFormat, dtype: str) -> None:
    matrix = encoded(spec, np.zeros(shape_for(spec), np.float32), dtype)
    assert all(np.isfinite(a.astype(np.float32)).all() for a in matrix.arrays.values())
    assert not matrix.reference.any()
    assert not matrix.decoded(np.float32).any()


@every_format
@pytest.mark.parametrize("fill", [0.3, -0.3])
def test_groups_of_one_value(spec: WeightFormat, fill: float) -> None:
    values = np.full(shape_for(spec), fill, np.float32)
    assert is_within_bound(encoded(spec, values), values)


@every_format
def test_one_huge_outlier_spoils_its_own_group_only(spec: WeightFormat) -> None:
    values = ramp(shape_for(spec))
    values[1, 3] = 400
    matrix = encoded(spec, values)
    assert is_within_bound(matrix, values)
    if isinstance(spec, GroupedFormat) and "nvfp4" not in name(spec):
        plain = encoded(spec, ramp(values.shape)).reference
        is_other = np.ones(values.shape, bool)
        is_other[1, : spec.group_size] = False
        np.testing.assert_array_equal(matrix.reference[is_other], plain[is_other])


ENDS = [
    ("F32", 1e-38),
    ("BF16", 1e-38),
    ("BF16", 1e-20),
    ("F16", 3e-8),
    ("F16", 1e-5),
    ("F16", 6e4),
]
"""Sizes around the smallest and the largest numbers of each dtype."""


@every_format
@pytest.mark.parametrize(("dtype", "size"), ENDS)
def test_the_ends_of_the_range_stay_finite(spec: WeightFormat, dtype: str, size: float) -> None:
    values = ramp(shape_for(spec)) * np.float32(size / 16)
    matrix = encoded(spec, values, dtype)
    assert np.isfinite(matrix.reference).all()
    # E4M3 scales reach to 448 only, and have no smaller number than 2 ** -9.
    if not {"LloydMaxSpec"} & {spec.type, core_type(spec)}:
        floor = {"F16": 2.0**-22, "BF16": 2.0**-120, "F32": 2.0**-120}[dtype]
        error = np.abs(matrix.reference - values).max()
        assert error <= np.abs(values).max() + floor


def core_type(spec: WeightFormat) -> str:
    return spec.quantization_spec.type if isinstance(spec, HybridSpec) else spec.type


def test_the_widest_spans_stay_finite() -> None:
    largest = 2.0**126
    values = np.where(np.arange(320) % 3 == 0, largest, -largest).astype(np.float32).reshape(5, 64)
    for spec in FORMATS:
        if spec.type in ("IntSpec", "MLXSpec"):
            assert is_within_bound(encoded(spec, values, "BF16"), values, "BF16"), name(spec)


def grid_codes(fields: dict[str, Any], halves: list[float]) -> list[int]:
    """Codes of some values under scale 1, which the ends of the group bring about."""
    spec = grouped_spec(**fields)
    padding = spec.group_size - len(halves) - 2
    top = 15.0 if fields["type"] == "MLXSpec" else 7.0
    values = np.array([[top - 15, top, *halves, *[0.0] * padding]], np.float32)
    groups = spec.grouped(values)
    return spec.codes(groups, spec.fit(groups, "F32", None))[0, 0, 2 : 2 + len(halves)].tolist()


@pytest.mark.parametrize("size", [3, 4, 6, 32, 64])
def test_extremes_of_any_group_size(size: int) -> None:
    groups = ramp((5, 7, size))
    groups[0, 0] = -0.0
    lowest, highest = grouped.extremes(groups)
    np.testing.assert_array_equal(lowest, groups.min(-1))
    np.testing.assert_array_equal(highest, groups.max(-1))
    assert not np.signbit([lowest[0, 0], highest[0, 0]]).any()


def test_ties_go_to_the_even_code() -> None:
    mlx = {"type": "MLXSpec", "bits": 4, "group_size": 32}
    assert grid_codes(mlx, [0.5, 1.5, 2.5, 3.5, 13.5, 14.5]) == [0, 2, 2, 4, 14, 14]
    integer = {"type": "IntSpec", "bits": 4, "group_size": 32, "is_symmetric": True}
    assert grid_codes(integer, [-7.5, -6.5, -0.5, 0.5, 1.5]) == [0, 2, 8, 8, 10]


def test_microfloat_ties_go_to_the_even_mantissa_and_zero_has_one_code() -> None:
    fields = {"type": "MicrofloatSpec", "bits": 4, "group_size": 16, "scale_mode": "mxfp4"}
    spec = grouped_spec(**fields)
    ties = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 6], np.float32)
    values = np.concatenate([ties, -ties])[None]
    ones = np.ones((1, 1), np.float32)
    codes = spec.codes(spec.grouped(values), MicrofloatParameters(ones, ones))
    assert codes.reshape(2, 8).tolist() == [
        [0, 2, 2, 4, 4, 6, 6, 7],
        [0, 10, 10, 12, 12, 14, 14, 15],
    ]


def test_lloyd_max_ties_go_to_the_lower_code() -> None:
    fields = {"type": "LloydMaxSpec", "bits": 4, "group_size": 16, "bias_bits": None}
    spec = grouped_spec(**fields)
    table = codebook(4, 16, None)
    middles = np.append((table[1:] + table[:-1]) * np.float32(0.5), np.float32(1))
    one = LloydMaxParameters(np.ones((1, 1), np.float32), np.zeros((1, 1), np.uint8))
    codes = spec.codes(middles.reshape(1, 1, 16), one)
    assert codes.reshape(-1).tolist() == list(range(16))


def test_searched_scales_are_better_than_the_rule() -> None:
    """They never lose to the largest magnitude at 6 steps (NVFP4), nor to OCP's exponent."""
    values = np.random.RandomState(4).standard_normal((4, 64)).astype(np.float32)
    for mode, size in (("mxfp4", 32), ("nvfp4", 16)):
        fields = {"type": "MicrofloatSpec", "bits": 4, "group_size": size, "scale_mode": mode}
        spec = grouped_spec(**fields)
        groups = spec.grouped(values)
        whole = spec.whole(values, "F32")
        found = spec.fit(groups, "F32", whole)
        rule = np.abs(groups).max(-1) / 4
        powers = np.exp2(np.floor(np.log2(rule))).astype(np.float32)
        if mode == "nvfp4":
            rule = np.abs(groups).max(-1) / 6 / found.global_scales
            powers = rule.astype(NUMPY_DTYPES["F8_E4M3"]).astype(np.float32)
        by_rule = found._replace(scales=powers)
        least, plain = (grouped.squared_error(spec, groups, p) for p in (found, by_rule))
        assert (least <= plain).all()
        assert (least < plain).any()


def test_zero_is_exact_in_integer_formats() -> None:
    values = ramp((5, 64))
    values[:, ::7] = 0
    for spec in FORMATS:
        if spec.type == "IntSpec":
            assert not encoded(spec, values, "BF16").reference[:, ::7].any()


def faulty_write(self: GroupPlane, values: np.ndarray) -> np.ndarray:
    """The plane's values in their old order, under its new shape."""
    return np.resize(values, self.shape)


def with_one_more(planes: Any) -> Any:
    def wrong(self: IntSpec, parameters: Any, *rest: Any) -> dict[str, np.ndarray]:
        shifted = (parameters.zero_points + 1).clip(0, 2**self.bits - 1)
        return planes(self, parameters._replace(zero_points=shifted), *rest)

    return wrong


def without(planes: Any, suffix: str) -> Any:
    def wrong(self: Any, *given: Any) -> dict[str, np.ndarray]:
        arrays = planes(self, *given)
        return {k: np.zeros_like(a) if k == suffix else a for k, a in arrays.items()}

    return wrong


def with_flipped(stored: Any, side: str) -> Any:
    def wrong(self: HybridSpec, matrix: np.ndarray) -> dict[str, np.ndarray]:
        arrays = stored(self, matrix)
        return {key: -array if side in key else array for key, array in arrays.items()}

    return wrong


def swapped_nibbles(packing: Any) -> Any:
    def wrong(codes: np.ndarray) -> np.ndarray:
        packed = packing(codes)
        return packed << 4 | packed >> 4

    return wrong


FORMAT_FOLDER = "masu.specs.formats"


def core(spec: WeightFormat) -> dict[str, Any]:
    """The fields of the format that holds the codes; no adapter may make up for a fault."""
    fields = json.loads(spec.to_json())
    if fields.get("adapter_spec") is not None:
        return {"type": None}
    return fields.get("quantization_spec", fields)


def has_planes(spec: WeightFormat) -> bool:
    return core(spec)["type"] in ("IntSpec", "MLXSpec") and core(spec)["layout"] == "output_input"


def is_rotated(spec: WeightFormat, side: Any) -> bool:
    return isinstance(spec, HybridSpec) and core(spec)["type"] and spec.block(side) is not None


FAULTS = {
    "nibble order": (
        f"{FORMAT_FOLDER}.packing._pairs_joined",
        swapped_nibbles,
        lambda spec: core(spec).get("bits") == 4,
    ),
    "zero point off by one": (
        f"{FORMAT_FOLDER}.integer.IntSpec.planes",
        with_one_more,
        lambda spec: core(spec).get("is_symmetric") is False,
    ),
    "bias omitted": (
        f"{FORMAT_FOLDER}.mlx.MLXSpec.planes",
        lambda planes: without(planes, "biases"),
        lambda spec: core(spec)["type"] == "MLXSpec",
    ),
    "bias index omitted": (
        f"{FORMAT_FOLDER}.lloyd_max.LloydMaxSpec.planes",
        lambda planes: without(planes, "bias_indices"),
        lambda spec: core(spec).get("bias_bits") is not None,
    ),
    "input sign vector flipped": (
        f"{FORMAT_FOLDER}.hybrid.HybridSpec._stored_signs",
        lambda stored: with_flipped(stored, "input"),
        lambda spec: is_rotated(spec, "input"),
    ),
    "output sign vector flipped": (
        f"{FORMAT_FOLDER}.hybrid.HybridSpec._stored_signs",
        lambda stored: with_flipped(stored, "output"),
        lambda spec: is_rotated(spec, "output"),
    ),
    "planes not transposed": (
        f"{FORMAT_FOLDER}.planes.GroupPlane.write",
        lambda write: faulty_write,
        has_planes,
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every format that a fault touches is seen to be wrong; without it, none is."""
    target, change, touches = FAULTS[fault]
    hit = [spec for spec in FORMATS if touches(spec)]
    assert hit
    assert not [name(spec) for spec in hit if not is_near(spec)]
    monkeypatch.setattr(target, change(resolve_name(target)))
    assert not [name(spec) for spec in hit if is_near(spec)]


def is_near(spec: WeightFormat) -> bool:
    values = ramp(shape_for(spec))
    return is_within_bound(encoded(spec, values), values)
