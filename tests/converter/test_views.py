"""Views of checkpoint tensors: the right values, read no further than asked for."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from masu.converter.checkpoint import SourceTensor
from masu.converter.mxfp4 import codes, halved, scales
from masu.converter.views import flattened, odd_rows_first, squeezed, transposed
from masu.specs.dtypes import NUMPY_DTYPES, dtype_name
from masu.specs.errors import TensorMismatch
from masu.specs.stream import FileRange

PLACE = FileRange(Path("nowhere"), 0, 1)


class Source:
    """A tensor that notes which entries of its first axis are read."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.reads: list[tuple[int, int]] = []

    @property
    def tensor(self) -> SourceTensor:
        return SourceTensor(
            name="t",
            dtype=dtype_name(self.values.dtype),
            shape=self.values.shape,
            location="here",
            read=self._read,
            stored=PLACE,
            raw=PLACE,
        )

    def _read(self, start: int, stop: int) -> np.ndarray:
        self.reads.append((start, stop))
        return self.values[start:stop]


def ramp(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize(
    ("view", "shape", "change"),
    [
        (squeezed, (4, 1, 3), lambda v: v[:, 0]),
        (transposed, (4, 2, 3), lambda v: np.stack([expert.T for expert in v])),
        (odd_rows_first, (4, 6, 3), lambda v: v[:, [1, 3, 5, 0, 2, 4]]),
        (odd_rows_first, (4, 6), lambda v: v[:, [1, 3, 5, 0, 2, 4]]),
        (halved, (4, 2, 3), lambda v: v[:, :, [0, 0, 1, 1, 2, 2]]),
    ],
)
def test_a_view_and_its_parts(
    view: Callable[[SourceTensor], SourceTensor],
    shape: tuple[int, ...],
    change: Callable[[np.ndarray], np.ndarray],
) -> None:
    source = Source(ramp(*shape))
    seen, wanted = view(source.tensor), change(source.values)
    assert not source.reads, "seeing reads nothing"
    assert seen.shape == wanted.shape
    np.testing.assert_array_equal(seen.read(0, 4), wanted)
    np.testing.assert_array_equal(seen.read(1, 3), wanted[1:3])
    assert source.reads == [(0, 4), (1, 3)]
    keeps_bytes = np.array_equal(source.values.reshape(-1), wanted.reshape(-1))
    assert (seen.raw is not None) == keeps_bytes


def test_flat_experts_are_read_one_by_one() -> None:
    source = Source(ramp(3, 4, 2))
    seen, wanted = flattened(source.tensor), source.values.reshape(12, 2)
    assert (seen.shape, seen.raw) == ((12, 2), PLACE)
    for start, stop in ((0, 12), (4, 8), (5, 7), (3, 9)):
        np.testing.assert_array_equal(seen.read(start, stop), wanted[start:stop])
    assert source.reads == [(0, 3), (1, 2), (1, 2), (0, 3)]


def test_part_of_an_expert_does_not_keep_the_rest_alive() -> None:
    part = flattened(Source(ramp(3, 4, 2)).tensor).read(5, 7)
    assert part.base is None


def test_blocks_of_codes_stand_side_by_side() -> None:
    values = np.arange(2 * 3 * 2 * 16, dtype=np.uint8).reshape(2, 3, 2, 16)
    seen = codes(Source(values).tensor)
    assert (seen.shape, seen.raw) == ((2, 3, 32), PLACE)
    np.testing.assert_array_equal(seen.read(1, 2), values[1:2].reshape(1, 3, 32))


def test_scales_may_be_called_floats() -> None:
    values = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    named = Source(values.view(NUMPY_DTYPES["F8_E8M0"])).tensor
    for tensor in (Source(values).tensor, named):
        seen = scales(tensor)
        assert (seen.dtype, seen.raw) == ("U8", PLACE)
        read = seen.read(0, 2)
        assert read.dtype == np.uint8
        np.testing.assert_array_equal(read, values)


@pytest.mark.parametrize(
    ("view", "shape"),
    [
        (squeezed, (4, 3)),
        (squeezed, (4, 2, 3)),
        (transposed, (4, 3)),
        (odd_rows_first, (4,)),
        (odd_rows_first, (4, 5, 3)),
        (flattened, (4,)),
        (codes, (4, 6, 16)),
        (codes, (4, 6, 2, 8)),
    ],
)
def test_other_shapes_are_refused_by_name(
    view: Callable[[SourceTensor], SourceTensor], shape: tuple[int, ...]
) -> None:
    with pytest.raises(TensorMismatch, match=r"^weights: expected \[.*\], found \["):
        view(replace(Source(ramp(*shape)).tensor, name="weights"))
