"""Some rows of a stored matrix, decoded without the others, are those of the whole."""

import numpy as np
import pytest
from encoder_bounds import ramp, spec_of
from format_cases import SPECS, StoredMatrix, shape_for

from masu.specs.formats import FullPrecisionSpec, WeightFormat

FORMATS = [spec_of(each) for each in SPECS]


def name(spec: WeightFormat) -> str:
    return repr(StoredMatrix("", spec, (), {})).removesuffix("-group_major")


@pytest.mark.parametrize("planes", ["group_major", "row_major"])
@pytest.mark.parametrize("spec", FORMATS, ids=name)
def test_rows_are_those_of_the_whole(spec: WeightFormat, planes: str) -> None:
    rows, columns = shape_for(spec)
    shape = next(s for s in ((4 * rows + 3, columns), (4 * rows, columns)) if not spec.problem(s))
    arrays = spec.encode(ramp(shape), "BF16", planes)  # pyright: ignore[reportArgumentType]
    whole = spec.decode(arrays, shape, planes, np.float64)  # pyright: ignore[reportArgumentType]
    for start, stop in [(0, 1), (1, 3), (5, 11), (rows, shape[0]), (shape[0] - 1, shape[0])]:
        found = spec.decode_rows(arrays, shape, start, stop, planes, np.float64)  # pyright: ignore
        assert np.array_equal(found, whole[start:stop]), (start, stop)


def test_only_what_is_asked_for_is_decoded() -> None:
    """Or the memory that this is for would be taken all the same."""
    seen: list[tuple[int, ...]] = []

    class Watched(FullPrecisionSpec):
        def decode(self, arrays, shape, planes, dtype, xp=np):
            seen.append(shape)
            return super().decode(arrays, shape, planes, dtype, xp)

    spec = Watched(type="FullPrecisionSpec", layout="output_input")
    arrays = spec.encode(ramp((64, 32)), "BF16", "group_major")
    spec.decode_rows(arrays, (64, 32), 8, 12, "group_major", np.float64)
    assert seen == [(4, 32)]
    apart = [spec.rows_apart for spec in FORMATS if spec.type == "D4S4Spec"]
    assert apart == [1] * len(apart)
