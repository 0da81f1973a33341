"""Engine tensors out of pieces: rows, order, stacking, rounding, plain copies."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from masu.converter.assembly import Assembly, Part
from masu.converter.checkpoint import SourceTensor
from masu.converter.table import times
from masu.specs.dtypes import dtype_name
from masu.specs.stream import FileRange, Piece


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def source(values: np.ndarray, folder: Path, name: str) -> SourceTensor:
    path = folder / name
    path.write_bytes(b"xxxx" + values.tobytes())
    place = FileRange(path, 4, values.nbytes)
    return SourceTensor(
        name=name,
        dtype=dtype_name(values.dtype),
        shape=values.shape,
        location=name,
        read=lambda start, stop: values[start:stop],
        stored=place,
        raw=place,
    )


def stored(pieces: list[Piece], dtype: str) -> np.ndarray:
    parts = []
    for piece in pieces:
        if isinstance(piece, FileRange):
            data = piece.path.read_bytes()[piece.offset : piece.offset + piece.length]
            parts.append(data)
        else:
            parts.append(piece.tobytes())
    return np.frombuffer(b"".join(parts), dtype)


def ramp(rows: int, columns: int, start: int = 0) -> np.ndarray:
    return np.arange(start, start + rows * columns, dtype=np.float32).reshape(rows, columns)


def test_rows_are_taken_in_the_wanted_order(folder: Path) -> None:
    values = ramp(6, 2)
    assembly = Assembly((Part(source(values, folder, "a"), ((4, 6), (0, 3))),))
    expected = np.concatenate([values[4:6], values[0:3]])
    assert assembly.shape == (5, 2)
    np.testing.assert_array_equal(assembly.read(0, 5), expected)
    np.testing.assert_array_equal(assembly.read(1, 4), expected[1:4])
    pieces = list(assembly.pieces("F32"))
    assert all(isinstance(piece, FileRange) for piece in pieces)
    np.testing.assert_array_equal(stored(pieces, "<f4").reshape(5, 2), expected)


def test_parts_of_experts_are_stacked(folder: Path) -> None:
    tensors = [ramp(2, 3, start) for start in (0, 10, 20, 30)]
    parts = tuple(Part(source(t, folder, str(i)), ((0, 2),)) for i, t in enumerate(tensors))
    assembly = Assembly(parts, stacked=2)
    expected = np.stack([np.concatenate(tensors[:2]), np.concatenate(tensors[2:])])
    assert assembly.shape == (2, 4, 3)
    np.testing.assert_array_equal(assembly.read(0, 2), expected)
    np.testing.assert_array_equal(assembly.read(1, 2), expected[1:])


def test_values_change_in_float32_and_are_rounded_once(folder: Path) -> None:
    values = np.linspace(-3, 3, 12, dtype=np.float32).astype(ml_dtypes.bfloat16).reshape(4, 3)
    part = Part(source(values, folder, "a"), ((0, 4),))
    assembly = Assembly((part,), values=times(0.35))
    expected = (values.astype(np.float32) * np.float32(0.35)).astype(ml_dtypes.bfloat16)
    made = stored(list(assembly.pieces("BF16")), "<u2")
    np.testing.assert_array_equal(made, expected.reshape(-1).view("<u2"))
    assert assembly.copied("BF16") is None


def test_a_whole_unchanged_tensor_is_known_as_a_copy(folder: Path) -> None:
    tensor = source(ramp(4, 2), folder, "a")
    assert Assembly((Part(tensor, ((0, 4),)),)).copied("F32") == tensor.raw
    assert Assembly((Part(tensor, ((0, 4),)),)).copied("BF16") is None
    assert Assembly((Part(tensor, ((2, 4), (0, 2))),)).copied("F32") is None
    assert Assembly((Part(tensor, ((0, 4),)),) * 2).copied("F32") is None


def test_narrowing_never_leaves_file_ranges(folder: Path) -> None:
    assembly = Assembly((Part(source(ramp(4, 2), folder, "a"), ((0, 4),)),))
    pieces = list(assembly.pieces("BF16"))
    assert all(isinstance(piece, np.ndarray) for piece in pieces)
    np.testing.assert_array_equal(
        stored(pieces, "<u2"), ramp(4, 2).astype(ml_dtypes.bfloat16).reshape(-1).view("<u2")
    )
