"""The container reader: equal to the safetensors library on good files, strict on bad ones."""

import gc
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from golden import CASES, GOLDEN
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import deserialize, safe_open
from safetensors.numpy import save_file

from masu.specs.container import Container, StoredTensor
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.errors import ContainerError
from masu.specs.stream import FileRange

F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
CHECKPOINTS = sorted(
    str(file.relative_to(GOLDEN))
    for name in CASES
    for file in (GOLDEN / name).glob("*/*.safetensors")
)


def file_of(path: Path, header: object, data: bytes = b"", *, length: int | None = None) -> Path:
    """A safetensors file whose header (JSON or raw bytes) may say anything."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(text) if length is None else length
    path.write_bytes(size.to_bytes(8, "little") + text + data)
    return path


def entry(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_reads_what_the_library_reads(name):
    file = GOLDEN / name
    ours = Container.open(file)
    with safe_open(file, framework="numpy") as theirs:
        assert dict(ours.metadata) == (theirs.metadata() or {})
    expected = dict(deserialize(file.read_bytes()))
    assert set(ours.tensors) == set(expected)
    for tensor, stored in ours.tensors.items():
        found = ours.read(tensor)
        assert stored.dtype == expected[tensor]["dtype"]
        assert list(found.shape) == expected[tensor]["shape"]
        assert found.tobytes() == expected[tensor]["data"]


def test_every_dtype_is_read(path):
    header, data = {}, b""
    for dtype, known in NUMPY_DTYPES.items():
        begin, data = len(data), data + np.arange(1, 3).astype(known).tobytes()
        header[dtype] = entry(dtype, [2], [begin, len(data)])

    container = Container.open(file_of(path, header, data))

    for dtype, known in NUMPY_DTYPES.items():
        np.testing.assert_array_equal(container.read(dtype), np.arange(1, 3).astype(known))


def test_rows_of_the_first_axis(path):
    table = np.arange(60, dtype=np.int16).reshape(5, 3, 4)
    save_file({"before": np.zeros(7, np.float32), "table": table}, path)
    container = Container.open(path)

    np.testing.assert_array_equal(container.read("table"), table)
    np.testing.assert_array_equal(container.read("table", 3), table[3:])
    np.testing.assert_array_equal(container.read("table", 1, 3), table[1:3])
    assert container.read("table", 5).shape == (0, 3, 4)
    for start, stop in [(-1, 2), (3, 2), (0, 6)]:
        with pytest.raises(IndexError, match=f"'table' has 5 rows, asked for {start}..{stop}"):
            container.read("table", start, stop)


def test_what_was_read_is_fresh_and_writable(path):
    save_file({"x": np.ones(3, np.float32)}, path)
    container = Container.open(path)
    container.read("x")[:] = 7
    np.testing.assert_array_equal(container.read("x"), np.ones(3, np.float32))


def test_scalars_and_tensors_without_elements(path):
    arrays = {
        "empty": np.zeros((0, 3), np.float32),
        "empty_rows": np.zeros((3, 0), ml_dtypes.bfloat16),
        "flat": np.zeros(0, np.uint8),
        "one": np.array([2.5], np.float32),
        "scalar": np.array(1.5, np.float32),
    }
    save_file(arrays, path)
    container = Container.open(path)

    for name, array in arrays.items():
        found = container.read(name)
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found, array)
    assert container.read("empty_rows", 1, 3).shape == (2, 0)
    assert container.read("scalar", 0, 1) == 1.5


def test_tensors_come_in_file_order_wherever_the_data_start(path):
    header = {"b": entry("U8", [2], [3, 5]), "none": entry("U8", [0], [3, 3]),
              "a": entry("U8", [3], [0, 3])}  # fmt: skip
    container = Container.open(file_of(path, header, b"\x01\x02\x03\x04\x05"))
    start = path.stat().st_size - 5

    assert list(container.tensors) == ["a", "none", "b"]
    assert container.tensors["b"] == StoredTensor("U8", (2,), start + 3, 2)
    assert container.range("b") == FileRange(path, start + 3, 2)
    np.testing.assert_array_equal(container.read("b"), [4, 5])


@pytest.mark.parametrize("name", ["", " ", "a/b\\c", "\u0000", 'q"uote', "é😀", "__Metadata__"])
def test_odd_names_are_legal(path, name):
    assert list(Container.open(file_of(path, {name: F32}, bytes(8))).tensors) == [name]


def test_padding_of_the_header_and_empty_files_are_legal(path):
    assert Container.open(file_of(path, b"{}   \n ")).tensors == {}
    metadata = {"__metadata__": {"é": "\n", "": ""}}
    assert Container.open(file_of(path, metadata)).metadata == {"é": "\n", "": ""}


def test_the_map_shows_the_file_and_outlives_the_container(path):
    save_file({"x": np.arange(4, dtype=np.float32)}, path)
    container = Container.open(path)
    mapped, x = container.map(), container.tensors["x"]
    container.close()
    del container

    assert mapped.dtype == np.uint8
    assert mapped.tobytes() == path.read_bytes()
    values = mapped[x.offset : x.offset + x.length].view(np.float32)
    np.testing.assert_array_equal(values, np.arange(4))
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 1


def test_threads_read_without_disturbing_each_other(path):
    table = np.arange(512 * 64, dtype=np.uint32).reshape(512, 64)
    save_file({"x": table}, path)
    container = Container.open(path)

    def read(row: int) -> bool:
        return np.array_equal(container.read("x", row, row + 1)[0], table[row])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, list(range(512)) * 4))


def test_the_file_is_closed_with_the_object(path):
    save_file({"x": np.ones(1, np.float32)}, path)
    with Container.open(path) as container:
        container.read("x")
    with pytest.raises(ValueError, match="closed"):
        container.read("x")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files in /proc")
def test_no_file_stays_open(path):
    save_file({"x": np.ones(1, np.float32)}, path)
    broken = file_of(path.with_name("broken"), {"x": F32})
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))

    for _ in range(5):
        Container.open(path)
        with pytest.raises(ContainerError):
            Container.open(broken)
    gc.collect()

    assert len(os.listdir("/proc/self/fd")) <= before


# What is no container at all.


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (b"", "is empty", "again"),
        (b"\x02\x00\x00", "has 3 bytes, too few for a header", None),
        (b"version https://git-lfs.github.com/spec/v1\noid ...", "git-lfs pointer", "git lfs pull"),
        (b"version https://git-lfs", "git-lfs pointer", "git lfs pull"),
        (b"<!DOCTYPE html><html></html>", "is a web page", "login"),
        (b"\n <HTML lang=en>", "is a web page", "login"),
        (b"GGUF\x03\x00\x00\x00" + bytes(64), "not a safetensors file: .* claim a header", None),
        ((100_000_001).to_bytes(8, "little"), "100,000,001 bytes, the format allows 100", None),
        ((100).to_bytes(8, "little") + b"{}", "ends inside its header: .* 100 bytes", "again"),
        ((9).to_bytes(8, "little") + b"{}", "ends inside its header: .* 9 bytes", "again"),
        (bytes(8), "does not begin with an opening brace", None),
        (bytes([3]) + bytes(7) + b" {}", "does not begin with an opening brace", None),
        (bytes([2]) + bytes(7) + b"[]", "does not begin with an opening brace", None),
        (bytes([6]) + bytes(7) + b"{what}", "the header of .* is not valid JSON", None),
        (bytes([3]) + bytes(7) + b"{}\x00", "the header of .* is not valid JSON: Extra", None),
    ],
)
def test_what_is_no_container_is_named(path, content, message, hint):
    path.write_bytes(content)
    with pytest.raises(ContainerError, match=message) as caught:
        Container.open(path)
    assert str(path) in caught.value.message
    assert (caught.value.hint is None) == (hint is None)
    assert (hint or "") in (caught.value.hint or "")


def test_a_header_of_the_largest_size_is_read(path):
    text = b"{}".ljust(100_000_000)
    assert Container.open(file_of(path, text)).tensors == {}


def test_a_path_that_is_no_file(tmp_path):
    with pytest.raises(ContainerError, match="nowhere does not exist"):
        Container.open(tmp_path / "nowhere")
    with pytest.raises(ContainerError, match="is not a regular file"):
        Container.open(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ContainerError, match="is not a regular file"):  # and does not wait
        Container.open(tmp_path / "pipe")


# Headers that do not describe their file. Each case: header, bytes of data, the one problem.


MALFORMED = {
    "metadata list": ({"__metadata__": []}, 0, r"expected an object of strings, found \[\]"),
    "metadata null": ({"__metadata__": None}, 0, "expected an object of strings, found None"),
    "metadata number": ({"__metadata__": {"k": 1}}, 0, "__metadata__.k: expected a string"),
    "metadata object": ({"__metadata__": {"k": {}}}, 0, "__metadata__.k: expected a string"),
    "metadata with a list": ({"__metadata__": {"k": [2]}}, 0, "__metadata__.k: expected a string"),
    "entry list": ({"x": [1]}, 8, r"'x': expected an object of dtype.*, found \[1\]"),
    "entry null": ({"x": None}, 8, "'x': expected an object of dtype"),
    "missing key": ({"x": {"dtype": "F32", "shape": [2]}}, 8, "'x': expected an object of dtype"),
    "extra key": ({"x": {**F32, "strides": [4]}}, 8, "'x': expected an object of dtype"),
    "unknown dtype": ({"x": entry("F31")}, 8, "'x': unknown dtype 'F31'; known are BOOL, U8"),
    "lower case": ({"x": entry("f32")}, 8, "'x': unknown dtype 'f32'"),
    "dtype number": ({"x": entry(4)}, 8, "'x': unknown dtype 4"),
    "dtype list": ({"x": entry(["F32"])}, 8, "'x': unknown dtype"),
    "shape number": ({"x": entry(shape=2)}, 8, "'x': shape: expected a list of whole numbers"),
    "shape negative": ({"x": entry(shape=[-2])}, 8, "'x': shape: expected a list of whole"),
    "shape two negatives": ({"x": entry(shape=[-1, -2])}, 8, "'x': shape: expected a list"),
    "shape float": ({"x": entry(shape=[2.0])}, 8, "'x': shape: expected a list of whole"),
    "shape bool": ({"x": entry("U8", [True], [0, 1])}, 1, "'x': shape: expected a list of whole"),
    "shape text": ({"x": entry(shape="2")}, 8, "'x': shape: expected a list of whole"),
    "shape huge": ({"x": entry(shape=[2**63])}, 8, "'x': shape: expected a list of whole"),
    "shape null": ({"x": entry(shape=None)}, 8, "'x': shape: expected a list of whole"),
    "overflow to 8": ({"x": entry(shape=[2**62, 2**62, 2])}, 8, "'x': .* larger than any array"),
    "overflow to 0": ({"x": entry(shape=[2**32, 2**32], offsets=[0, 0])}, 0, "larger than any"),
    "zero but huge": ({"x": entry(shape=[0, 2**62], offsets=[0, 0])}, 0, "larger than any array"),
    "33 axes": ({"x": entry(shape=[1] * 32 + [2])}, 8, "'x': .* larger than any array"),
    "offsets number": ({"x": entry(offsets=8)}, 8, r"'x': data_offsets: expected \[begin, end\]"),
    "offsets one": ({"x": entry(offsets=[0])}, 8, r"'x': data_offsets: expected"),
    "offsets three": ({"x": entry(offsets=[0, 8, 8])}, 8, r"'x': data_offsets: expected"),
    "offsets negative": ({"x": entry(offsets=[-8, 0])}, 8, r"'x': data_offsets: expected"),
    "offsets float": ({"x": entry(offsets=[0, 8.0])}, 8, r"'x': data_offsets: expected"),
    "offsets bool": ({"x": entry("U8", [1], [False, True])}, 1, r"'x': data_offsets: expected"),
    "offsets reversed": ({"x": entry(offsets=[8, 0])}, 8, r"'x': data_offsets: expected"),
    "offsets huge": ({"x": entry(offsets=[2**64, 2**64 + 8])}, 8, r"'x': data_offsets: expected"),
    "too short": ({"x": entry(offsets=[0, 7])}, 7, r"'x': F32 \[2\] takes 8 bytes, .* span 7"),
    "too long": ({"x": entry(offsets=[0, 9])}, 9, r"'x': F32 \[2\] takes 8 bytes, .* span 9"),
    "gap at front": ({"x": entry(offsets=[4, 12])}, 12, "'x': 4 bytes before it belong to no"),
    "gap between": (
        {"x": F32, "y": entry(offsets=[9, 17])}, 17, "'y': 1 bytes before it belong to no tensor"),
    "overlap": ({"x": F32, "y": entry(offsets=[7, 15])}, 15, "'y': overlaps .* by 1 bytes"),
    "same place": ({"x": F32, "y": F32}, 8, "'y': overlaps the tensor before it by 8 bytes"),
    "inside": ({"x": F32, "y": entry("U8", [1], [2, 3])}, 8, "'y': overlaps .* by 6 bytes"),
    "inside, then right": (
        {"x": F32, "y": entry("U8", [1], [2, 3]), "z": entry(offsets=[8, 16])}, 16, "'y'"),
    "nothing inside": ({"x": F32, "y": entry("U8", [0], [2, 2])}, 8, "'y': overlaps .* by 6"),
    "nothing beyond": ({"x": F32, "y": entry("U8", [0], [9, 9])}, 8, "'y': 1 bytes before it"),
}  # fmt: skip


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_header_is_refused(path, case):
    header, size, problem = MALFORMED[case]
    file_of(path, header, bytes(size))
    with pytest.raises(ContainerError) as caught:
        Container.open(path)
    assert str(path) in caught.value.message
    [found] = caught.value.problems
    assert re.search(problem, found)


def test_all_problems_of_a_kind_are_listed(path):
    file_of(path, {"a": entry("F31"), "b": F32, "c": entry(shape=[-1]), "d": 5}, bytes(8))
    with pytest.raises(ContainerError, match="malformed tensor entries") as caught:
        Container.open(path)
    assert [problem[:3] for problem in caught.value.problems] == ["'a'", "'c'", "'d'"]


def test_duplicate_names_are_refused(path):
    twice = b'{"x": %b, "x": %b}' % ((json.dumps(F32).encode(),) * 2)
    with pytest.raises(ContainerError, match="the header of") as caught:
        Container.open(file_of(path, twice, bytes(8)))
    assert caught.value.problems == ("key 'x' 2 times",)


def test_missing_and_additional_bytes_are_refused(path):
    header = {"x": F32, "y": entry(offsets=[8, 16])}
    Container.open(file_of(path, header, bytes(16)))
    with pytest.raises(ContainerError, match=r"is truncated: .*first incomplete tensor: 'y'"):
        Container.open(file_of(path, header, bytes(15)))
    with pytest.raises(ContainerError, match=r"is truncated: .*first incomplete tensor: 'x'"):
        Container.open(file_of(path, header))
    with pytest.raises(ContainerError, match="has 1 bytes after its last tensor"):
        Container.open(file_of(path, header, bytes(17)))


@pytest.mark.parametrize("change", [-1, 1])
def test_a_header_length_that_lies_is_refused(path, change):
    text = json.dumps({"x": F32}).encode()
    with pytest.raises(ContainerError):
        Container.open(file_of(path, text, bytes(8), length=len(text) + change))


def test_a_file_cut_short_after_opening_is_noticed(path):
    save_file({"x": np.arange(1000, dtype=np.float32)}, path)
    container = Container.open(path)
    os.truncate(path, path.stat().st_size - 4)

    np.testing.assert_array_equal(container.read("x", 0, 999), np.arange(999))
    with pytest.raises(ContainerError, match="was cut short while it was open: 'x' goes up to"):
        container.read("x")
    with pytest.raises(ContainerError, match="changed while it was open"):
        container.map()


def test_an_unknown_name_is_an_error(path):
    save_file({"x": np.ones(1, np.float32)}, path)
    for use in (Container.open(path).read, Container.open(path).range):
        with pytest.raises(ContainerError, match=r"model.safetensors has no tensor 'y'"):
            use("y")


FRAGMENTS = st.sampled_from(
    b'"x"|"dtype"|"F32"|"shape"|"data_offsets"|[0, 8]|[2]|{|}|[|]|:|,|-1|true|"__metadata__"|1e9'
    .split(b"|")
)  # fmt: skip
SOUND = json.dumps({"__metadata__": {"k": "v"}, "x": F32}).encode()


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A sound header with one stretch replaced."""
    start = draw(st.integers(0, len(SOUND)))
    stop = draw(st.integers(start, len(SOUND)))
    return SOUND[:start] + draw(FRAGMENTS | st.binary(max_size=4)) + SOUND[stop:]


@given(st.lists(FRAGMENTS).map(b"".join) | damaged(), st.integers(-2, 2))
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_whatever_the_header_says_only_container_errors_escape(path, text, change):
    file_of(path, text, bytes(8), length=max(0, len(text) + change))
    try:
        container = Container.open(path)
    except ContainerError:
        return
    for name in container.tensors:
        container.read(name)
