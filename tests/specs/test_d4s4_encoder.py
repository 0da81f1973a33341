"""D4S4 tables are written well: the nearest codes, in any chunks, at less error than scalars."""

import json

import independent_decoder
import numpy as np
import pytest
from format_cases import D4S4

from masu.specs.dtypes import NUMPY_DTYPES, dtype_name
from masu.specs.errors import TensorError
from masu.specs.formats import D4S4Spec, parse_spec
from masu.specs.formats import d4s4_codebook as codebooks
from masu.specs.formats.d4s4 import PER_ROW
from masu.specs.formats.d4s4_search import Nearest
from masu.specs.formats.packing import pack, unpack

Arrays = dict[str, np.ndarray]

LEVELS = np.array([-1.5104, -0.4528, 0.4528, 1.5104])
"""The four levels that are optimal for a unit normal (Max 1960, table I)."""


def spec() -> D4S4Spec:
    parsed = parse_spec(json.dumps(D4S4), "spec")
    assert isinstance(parsed, D4S4Spec)
    return parsed


def gaussian(rows: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, width), np.float32) / 50


def ramp(rows: int, width: int) -> np.ndarray:
    """Every row, every 64 columns and every column of them at a level of their own."""
    column, row = np.arange(width), np.arange(rows)[:, None]
    wave = np.sin(0.7 * column + 1.3 * row) + 0.01 * (column % 64)
    return (wave * (1 + column // 64) * (1 + row)).astype(np.float32)


def decoded(arrays: Arrays, shape: tuple[int, int], dtype: type = np.float32) -> np.ndarray:
    return spec().decode(arrays, shape, "group_major", dtype)


def relative(values: np.ndarray, other: np.ndarray) -> float:
    """Squared error over energy, in float64."""
    exact = values.astype(np.float64)
    return float(np.square(exact - other).sum() / np.square(exact).sum())


def worst_group(values: np.ndarray, other: np.ndarray) -> float:
    """The largest relative squared error of any 64 columns."""
    energy = np.square(values.astype(np.float64)).reshape(-1, 64).sum(1)
    return float((np.square(values - other).reshape(-1, 64).sum(1) / energy).max())


def scalar_error(rotated: np.ndarray) -> float:
    """Relative error of 2-bit Lloyd-Max codes with a least squares scale per 64 columns.

    The scale is not rounded: the scalar code gets more bits for it than D4S4 has.
    """
    groups = rotated.reshape(-1, 64).astype(np.float64)
    scale = np.sqrt(np.square(groups).mean(1, keepdims=True))
    for _ in range(3):
        levels = LEVELS[np.digitize(groups / scale, [-0.9816, 0, 0.9816])]
        scale = (groups * levels).sum(1, keepdims=True) / np.square(levels).sum(1, keepdims=True)
    levels = LEVELS[np.digitize(groups / scale, [-0.9816, 0, 0.9816])]
    return relative(groups, scale * levels)


@pytest.mark.parametrize("dtype", ["F32", "BF16", "F16"])
def test_the_arrays_are_those_of_the_spec(dtype: str) -> None:
    values = gaussian(5, 256)
    arrays = spec().encode(values, dtype, "group_major")
    expected = spec().arrays(values.shape, dtype, "group_major")
    assert {name: (dtype_name(array.dtype), array.shape) for name, array in arrays.items()} == {
        name: (array.dtype, array.shape) for name, array in expected.items()
    }
    assert relative(values, decoded(arrays, (5, 256))) < 0.1


@pytest.mark.parametrize(("rows", "width"), [(1, 128), (5, 256), (3, 640)])
def test_both_decoders_give_back_a_ramp(rows: int, width: int) -> None:
    """Each 64 columns come back, so none were exchanged: neighbours differ by half or more."""
    values = ramp(rows, width)
    arrays = spec().encode(values, "F32", "group_major")
    independent = independent_decoder.decode(arrays, D4S4, values.shape, "group_major")
    # Sums of 32 products in float32, five levels of butterflies.
    bound = 1e-5 * np.abs(values).max()
    assert np.abs(independent - decoded(arrays, (rows, width))).max() < bound
    assert worst_group(values, independent) < 0.25


def shifted(indices: np.ndarray, groups: int) -> np.ndarray:
    return pack(np.roll(unpack(indices, 4, groups), 1, axis=-1), 4)


def test_a_ladder_shifted_by_one_group_is_seen() -> None:
    values = ramp(5, 256)
    arrays = spec().encode(values, "F32", "group_major")
    assert worst_group(values, decoded(arrays, (5, 256))) < 0.25
    faulty = arrays | {"ladder_indices": shifted(arrays["ladder_indices"], 4)}
    assert worst_group(values, decoded(faulty, (5, 256))) > 0.25


def test_flipped_signs_and_reversed_entries_are_seen() -> None:
    values = gaussian(16, 256)
    arrays = spec().encode(values, "F32", "group_major")
    for suffix, array in (
        ("output_hadamard_factors", np.roll(arrays["output_hadamard_factors"], 1)),
        ("table", arrays["table"][:, ::-1]),
        ("row_scales", np.roll(arrays["row_scales"], 1) * 2),
    ):
        assert relative(values, decoded(arrays | {suffix: array}, (16, 256))) > 0.2


@pytest.mark.parametrize("fine", [1, 64])
def test_the_search_finds_the_lowest_of_the_nearest_entries(fine: int) -> None:
    """Against distances in whole numbers of 64 bits; the table is full of ties, vectors far out."""
    rng = np.random.default_rng(3)
    table = rng.integers(-127, 128, (256, 4))
    table[128:] = table[rng.permutation(128)]  # every entry twice
    near = rng.integers(-140 * fine, 140 * fine, (500, 4))
    middles = (table[:100] + table[20:120]) // 2 * fine
    far = rng.integers(-(10**6), 10**6, (100, 4)) * fine
    vectors = np.concatenate([near, middles, far]).astype(np.float32)
    distances = np.square(vectors.astype(np.int64)[:, None] - table * fine).sum(axis=-1)
    codes, scores = Nearest(table, fine)(vectors.T)
    np.testing.assert_array_equal(codes, distances.argmin(axis=1))
    norms = np.square(vectors.astype(np.int64)).sum(axis=1)
    np.testing.assert_array_equal(norms - 2 * fine * scores, distances.min(axis=1))


def test_codes_are_the_nearest_under_the_stored_scales() -> None:
    """The rounded row scale and step, not the exact ones.

    Vectors are rounded to 1/64 of the table's unit before the search: a code may be farther than
    the best by that rounding, at most |v' - v| of 1/64 on either side, and no more.
    """
    values = gaussian(48, 384)
    arrays = spec().encode(values, "BF16", "group_major")
    steps = unpack(arrays["ladder_indices"], 4, 6)
    ladder = arrays["ladder"].astype(np.float64)[steps]
    scale = np.repeat(arrays["row_scales"].astype(np.float64)[:, None] * ladder, 16, axis=1)
    rotated = codebooks.rotate(values, arrays["output_hadamard_factors"])
    vectors = rotated.reshape(48, -1, 4) / scale[..., None]
    distances = np.linalg.norm(vectors[:, :, None] - arrays["table"].astype(float), axis=-1)
    chosen = np.take_along_axis(distances, arrays["codes"][..., None].astype(int), -1)[..., 0]
    assert (chosen - distances.min(-1)).max() <= 2 / 64


def test_no_ladder_step_near_by_leaves_less_error() -> None:
    """Of the five steps around the loudness of 64 columns, by their distances in float64.

    Rounding vectors to 1/64 moves the errors that the encoder compares by some 3e-4 of their size.
    """
    values = gaussian(40, 256)
    codebook = spec().fit(values)
    arrays = spec().encode_rows(values, codebook, "F32")
    table, ladder = codebook.table.astype(float), codebook.ladder.astype(float)
    groups = codebooks.rotate(values, codebook.factors).reshape(160, 16, 1, 4).astype(float)
    groups /= np.repeat(arrays["row_scales"], 4)[:, None, None, None]
    errors = np.stack(
        [np.square(groups - step * table).sum(-1).min(-1).sum(-1) for step in ladder], axis=1
    )
    loudness = np.sqrt(np.square(groups).mean(axis=(1, 2, 3)))
    ratios = np.abs(np.log(loudness[:, None] / (ladder * codebook.loudness)))
    first = np.clip(ratios.argmin(axis=1) - 2, 0, 11)
    steps = unpack(arrays["ladder_indices"], 4, 4).reshape(160, 1)
    chosen = np.take_along_axis(errors, steps.astype(int), axis=1)
    near = np.take_along_axis(errors, first[:, None] + np.arange(5), axis=1)
    assert (chosen <= near * (1 + 1e-3)).all()
    assert len(np.unique(steps)) > 8


def test_neither_chunks_nor_threads_change_a_byte() -> None:
    values = gaussian(300, 512)
    values[::7] *= 1e3
    values[3] = 0
    whole = spec().encode(values, "BF16", "group_major")
    sample = values[codebooks.sample_rows(*values.shape)]
    for threads, size in ((1, 300), (3, 1), (2, 77)):
        codebook = spec().fit(sample, threads)
        parts = [
            spec().encode_rows(values[start : start + size], codebook, "BF16", threads)
            for start in range(0, 300, size)
        ]
        joined = {name: np.concatenate([part[name] for part in parts]) for name in PER_ROW}
        joined |= spec().shared_arrays(codebook)
        assert joined.keys() == whole.keys()
        for name, array in joined.items():
            assert array.tobytes() == whole[name].tobytes(), name


@pytest.mark.parametrize("tail", ["normal", "student"])
def test_less_error_than_two_bit_scalars(tail: str) -> None:
    rng = np.random.default_rng(5)
    shape = (512, 512)
    draws = rng.standard_normal(shape) if tail == "normal" else rng.standard_t(3, shape)
    values = draws.astype(np.float32)
    arrays = spec().encode(values, "BF16", "group_major")
    rotated = codebooks.rotate(values, arrays["output_hadamard_factors"])
    assert relative(values, decoded(arrays, shape)) < 0.9 * scalar_error(rotated)


def test_zeros_come_back_as_zeros() -> None:
    values = gaussian(6, 256)
    values[2] = 0
    values[4, :64] = 0
    for table in (values, np.zeros((3, 128), np.float32)):
        arrays = spec().encode(table, "BF16", "group_major")
        back = decoded(arrays, table.shape)
        assert np.isfinite(back).all()
        assert not back[(table == 0).all(axis=1)].any()
        quiet = (table == 0).reshape(-1, 64).all(axis=1)
        assert not back.reshape(-1, 64)[quiet].any()


@pytest.mark.parametrize("dtype", ["F32", "BF16", "F16"])
def test_an_outlier_is_kept_and_its_neighbours_are_not_spoilt(dtype: str) -> None:
    values = gaussian(64, 256)
    values[5, 70] = 1e4 * values[5].std()
    arrays = spec().encode(values, dtype, "group_major")
    back = decoded(arrays, values.shape)
    assert np.isfinite(back).all()
    assert relative(values[5], back[5]) < 0.12
    others = np.delete(np.arange(64), 5)
    assert relative(values[others], back[others]) < 0.1


def test_columns_too_loud_for_the_ladder_raise_the_scale_of_their_row() -> None:
    """A row that the codebook was not fitted to: nearly all of its energy in 64 of 1024 columns."""
    codebook = spec().fit(gaussian(40, 1024))
    values = gaussian(3, 1024, seed=1)
    values[1, 128:192] *= 100
    arrays = spec().encode_rows(values, codebook, "BF16") | spec().shared_arrays(codebook)
    top = float(codebook.ladder[-1]) * codebook.loudness
    assert top < 3  # four times the root mean square is out of its reach
    assert relative(values[1], decoded(arrays, values.shape)[1]) < 0.12


@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e6, 1e30])
def test_any_size_of_values_serves(scale: float) -> None:
    values = gaussian(16, 128) * np.float32(scale)
    arrays = spec().encode(values, "BF16", "group_major")
    assert relative(values, decoded(arrays, values.shape)) < 0.1


def test_row_scales_too_large_for_float16_stay_finite() -> None:
    arrays = spec().encode(gaussian(4, 128) * np.float32(1e9), "F16", "group_major")
    assert arrays["row_scales"].dtype == NUMPY_DTYPES["F16"]
    assert np.isfinite(arrays["row_scales"]).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(value: float) -> None:
    values = gaussian(4, 128)
    values[1, 2] = value
    with pytest.raises(TensorError, match="expected finite values"):
        spec().encode(values, "BF16", "group_major")


def test_a_width_of_576_is_refused_by_name() -> None:
    assert "576 columns are not a multiple of 128" in str(spec().problem((8, 576)))
    with pytest.raises(TensorError, match="576 columns are not a multiple of 128"):
        spec().encode(np.zeros((8, 576), np.float32), "BF16", "group_major")


FIRST_SIGNS = [-1, 1, -1, -1, 1, -1, 1, 1, -1, 1, 1, 1, -1, -1, -1, -1]
"""SHA-256 of `d4s4:640:0` begins 2d f1; the lowest bit of a byte first, 1 for minus."""


def test_signs_are_fixed_by_the_width() -> None:
    factors = codebooks.sign_factors(640)
    assert factors[:16].tolist() == FIRST_SIGNS
    assert factors.shape == (640,)
    assert set(factors.tolist()) == {-1, 1}
    assert len({tuple(factors[start : start + 128]) for start in range(0, 640, 128)}) == 5
