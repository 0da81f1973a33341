"""The compiled rounding of ladder formats does what the numpy code of the formats does."""

from collections.abc import Iterator

import numpy as np
import pytest
from encoder_bounds import spec_of

from masu.specs.formats.grouped import GroupedFormat, of_lowest_error
from masu.specs.formats.ladder import Ladder, Steps
from masu.specs.formats.microfloat import E2M1
from masu.specs.formats.native import encoders
from masu.specs.formats.native.encoders import levels_of, lowest_error, serves

pytestmark = pytest.mark.skipif(
    encoders.why_not() is not None, reason=f"encoders: {encoders.why_not()}"
)


def lloyd(bits: int, group_size: int, bias_bits: int | None) -> GroupedFormat:
    return made(type="LloydMaxSpec", bits=bits, group_size=group_size, bias_bits=bias_bits)


def micro(group_size: int, mode: str) -> GroupedFormat:
    return made(type="MicrofloatSpec", bits=4, group_size=group_size, scale_mode=mode)


def made(**fields: object) -> GroupedFormat:
    spec = spec_of({**fields, "layout": "output_input"})
    assert isinstance(spec, GroupedFormat)
    return spec


SPECS = {
    "lloyd2": lloyd(2, 16, None),
    "lloyd3-bias": lloyd(3, 64, 3),
    "lloyd4": lloyd(4, 128, None),
    "lloyd4-bias": lloyd(4, 32, 4),
    "mxfp4": micro(32, "mxfp4"),
    "nvfp4": micro(16, "nvfp4"),
}
every_spec = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)


def matrices() -> Iterator[np.ndarray]:
    """Weights of many sizes, ties of levels, groups of zeros, outliers, the ends of float32."""
    rng = np.random.default_rng(0)
    bell = rng.standard_normal((9, 384)).astype(np.float32)
    yield bell * np.float32(2) ** rng.integers(-20, 12, (9, 1)).astype(np.float32)
    levels = np.array(E2M1, np.float32)[rng.integers(0, 16, (5, 256))]
    yield levels + rng.choice(np.array([-0.5, -0.25, 0, 0.25, 0.5, 1], np.float32), (5, 256))
    bell[1], bell[2, ::7], bell[3, 40:], bell[4, 5] = 0, -0.0, 1e-42, 3e4
    yield bell
    yield bell * np.float32(1e-38)
    yield np.clip(bell, -2, 2) * np.float32(2.0**124)


def numpy_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "_library", lambda: "not there, in this test")


@every_spec
@pytest.mark.parametrize("dtype", ["F32", "BF16"])
def test_bytes_are_those_of_the_numpy_code(
    spec: GroupedFormat, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = list(matrices())
    found = [spec.encode(values, dtype, "row_major") for values in given]
    assert serves(spec.ladder, spec.group_size)
    numpy_only(monkeypatch)
    assert not serves(spec.ladder, spec.group_size)
    for values, compiled in zip(given, found, strict=True):
        plain = spec.encode(values, dtype, "row_major")
        assert {name: array.tobytes() for name, array in compiled.items()} == {
            name: array.tobytes() for name, array in plain.items()
        }


@every_spec
def test_errors_are_the_same_to_the_last_bit(
    spec: GroupedFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between scales that are neighbours as floats, the rounding of the sums decides."""
    values = np.random.default_rng(3).standard_normal((64, 1024)).astype(np.float32)
    groups = spec.grouped(values)
    first = spec.fit(groups, "F32", spec.whole(values, "F32"))
    nudges = [np.float32(1 + count * 2.0**-23) for count in range(6)]
    tried = [first._replace(scales=first.scales * nudge) for nudge in nudges]
    found = of_lowest_error(spec, groups, tried)
    numpy_only(monkeypatch)
    wanted = of_lowest_error(spec, groups, tried)
    for each, plain in zip(found, wanted, strict=True):
        assert np.array_equal(each, plain)
    assert len(np.unique(found.scales / first.scales)) > 3


@every_spec
def test_processors_without_wide_vectors_choose_the_same(spec: GroupedFormat) -> None:
    ladder, rng = spec.ladder, np.random.default_rng(1)
    assert ladder is not None
    for values in matrices():
        groups = spec.grouped(values)
        shape = groups.shape[:-1]
        tried = [
            Steps(*rng.uniform(0, 2, (4, *shape)).astype(np.float32) * np.abs(groups).max())
            for _ in range(5)
        ]
        wide = lowest_error(groups, ladder, tried)
        assert np.array_equal(wide, lowest_error(groups, ladder, tried, portable=True))
        codes = levels_of(groups, ladder, tried[0])
        assert np.array_equal(codes, levels_of(groups, ladder, tried[0], portable=True))
        assert codes.max() < 2**spec.bits


def test_the_first_of_equal_candidates_is_chosen() -> None:
    ladder = Ladder(np.array([-1, 0, 1], np.float32), np.array([-0.5, 0.5], np.float32))
    groups = np.ones((3, 2, 16), np.float32)
    one, two = np.ones((3, 2), np.float32), np.full((3, 2), 2, np.float32)
    zero = np.zeros((3, 2), np.float32)
    bad, good = Steps(two, zero, two, one), Steps(one, zero, one, one)
    assert (lowest_error(groups, ladder, [bad, good, good]) == 1).all()
    # A scale of zero divides by infinity: every value is on the level of zero.
    assert (levels_of(groups, ladder, Steps(zero, zero, zero, one)) == 1).all()
    assert (levels_of(groups, ladder, good) == 2).all()


def test_longer_ladders_and_other_groups_are_left_to_numpy() -> None:
    for spec in (lloyd(6, 32, None), lloyd(2, 4, 2)):
        assert not serves(spec.ladder, spec.group_size)
        values = np.random.default_rng(2).standard_normal((4, 64)).astype(np.float32)
        assert spec.encode(values, "F32", "row_major")["weights"].size
    assert not serves(None, 32)
