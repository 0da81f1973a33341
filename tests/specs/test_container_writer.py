"""The container writer: lalamo's bytes, exact filling, nothing left behind after a failure."""

import hashlib
import json
import os
import resource
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from golden import ENGINE_CASES, GOLDEN
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import deserialize, safe_open

from masu.specs.container import Container
from masu.specs.container_layout import plan_layout
from masu.specs.container_writer import _ArraysWriter, _Hashing, _Target, hash_file, write_container
from masu.specs.dtypes import NUMPY_DTYPES, alignment, dtype_name
from masu.specs.errors import ContainerError, OutputError, PackageError, SourceError
from masu.specs.stream import FileRange, Piece, PlannedTensor
from masu.specs.tensors import ArraySpec

MIB = 2**20


def planned(
    arrays: Mapping[str, ArraySpec],
    pieces: Callable[[], Iterator[tuple[str, Piece]]],
    name: str = "",
) -> PlannedTensor:
    def read(start: int, stop: int) -> np.ndarray:
        raise NotImplementedError("the writer needs stored bytes, never values")

    name = name or next(iter(arrays), "nothing")
    return PlannedTensor(name=name, format=None, shape=(), arrays=arrays, read=read, pieces=pieces)


def of_array(name: str, array: np.ndarray) -> PlannedTensor:
    spec = ArraySpec(dtype_name(array.dtype), array.shape)
    return planned({name: spec}, lambda: iter([(name, array)]))


def of_range(container: Container, name: str) -> PlannedTensor:
    stored = container.tensors[name]
    spec = ArraySpec(stored.dtype, stored.shape)
    return planned({name: spec}, lambda: iter([(name, container.range(name))]))


def of_pieces(arrays: Mapping[str, ArraySpec], *pieces: tuple[str, Piece]) -> PlannedTensor:
    return planned(arrays, lambda: iter(pieces))


def u8(*shape: int) -> ArraySpec:
    return ArraySpec("U8", shape)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


# The layout, against packages that lalamo wrote.


def header_and_data(path: Path) -> tuple[dict[str, Any], str, bytes]:
    """The header as JSON in its order, as text without padding, and the data."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    text = content[8:end].decode("ascii")
    return json.loads(text), text.rstrip(" "), content[end:]


@pytest.mark.parametrize("case", ENGINE_CASES)
@pytest.mark.parametrize("kind", ["ranges", "arrays"])
def test_a_rewritten_golden_package_differs_only_in_metadata_order_and_padding(case, kind, path):
    golden = GOLDEN / case / "engine" / "model.safetensors"
    source = Container.open(golden)
    plan = [
        of_range(source, name) if kind == "ranges" else of_array(name, source.read(name))
        for name in sorted(source.tensors, reverse=True)
    ]
    digests = write_container(path, plan, source.metadata).arrays

    lalamo, lalamo_text, lalamo_data = header_and_data(golden)
    assert json.dumps(lalamo) == lalamo_text  # so equal text below means lalamo's spacing
    lalamo["__metadata__"] = dict(sorted(lalamo["__metadata__"].items()))
    _, text, data = header_and_data(path)
    assert text == json.dumps(lalamo)
    assert data == lalamo_data
    assert Container.open(path).tensors.keys() == digests.keys() == source.tensors.keys()
    for name, digest in digests.items():
        assert digest == hashlib.sha256(source.read(name).tobytes()).hexdigest()


def test_arrays_are_ordered_by_alignment_then_name():
    arrays = {
        f"{letter}.{dtype}": ArraySpec(dtype, (3,)) for dtype in NUMPY_DTYPES for letter in "bca"
    }
    arrays["Z.U8"] = arrays["é.U8"] = u8(3)
    layout = plan_layout(arrays, {})

    names = list(layout.offsets)
    assert names == sorted(
        arrays, key=lambda n: (-alignment(arrays[n].dtype), n.encode("utf-32-be"))
    )
    assert names[:3] == ["a.F64", "a.I64", "a.U64"]
    assert names[-1] == "é.U8"
    assert list(layout.offsets.values()) == sorted(layout.offsets.values())


@pytest.mark.parametrize("length", range(70))
def test_data_start_at_a_multiple_of_64(length):
    layout = plan_layout({"x": u8(5)}, {"k": "v" * length})

    start = layout.offsets["x"]
    assert start % 64 == 0
    assert start == len(layout.header) == 8 + int.from_bytes(layout.header[:8], "little")
    assert layout.size == start + 5
    assert len(layout.header) - len(layout.header.rstrip(b" ")) < 64


def test_the_text_of_the_header():
    layout = plan_layout({"é": u8(2), "a": ArraySpec("BF16", ())}, {"b": "\n", "a": '"'})
    assert layout.header[8:].rstrip(b" ").decode() == (
        r'{"__metadata__": {"a": "\"", "b": "\n"},'
        r' "a": {"dtype": "BF16", "shape": [], "data_offsets": [0, 2]},'
        r' "\u00e9": {"dtype": "U8", "shape": [2], "data_offsets": [2, 4]}}'
    )
    assert plan_layout({}, {}).header[8:].rstrip(b" ") == b"{}"


def test_what_cannot_be_laid_out():
    with pytest.raises(OutputError, match="__metadata__"):
        plan_layout({"__metadata__": u8(1)}, {})
    with pytest.raises(OutputError, match="100,000,000"):
        plan_layout({}, {"k": "v" * 100_000_000})


# What is written is what was planned.

SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)
ARRAYS = st.dictionaries(
    st.text(st.characters(codec="utf-8"), max_size=4).filter(lambda name: name != "__metadata__"),
    st.tuples(st.sampled_from(sorted(NUMPY_DTYPES)), SHAPES),
    max_size=6,
)


@given(ARRAYS, st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=3))
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_the_library_reads_what_was_written(path, specs, metadata):
    path.unlink(missing_ok=True)
    arrays = {
        name: np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(NUMPY_DTYPES[dtype])
        for name, (dtype, shape) in specs.items()
    }
    write_container(path, [of_array(*item) for item in arrays.items()], metadata)

    expected = dict(deserialize(path.read_bytes()))
    assert expected.keys() == arrays.keys()
    for name, (dtype, shape) in specs.items():
        assert expected[name]["dtype"] == dtype
        assert tuple(expected[name]["shape"]) == shape
        assert expected[name]["data"] == arrays[name].tobytes()
    with safe_open(path, framework="numpy") as theirs:
        assert (theirs.metadata() or {}) == metadata


def test_pieces_of_several_arrays_may_alternate(path, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(bytes(range(100)))
    arrays = {"w": u8(3, 4), "s": ArraySpec("BF16", (3,)), "none": u8(0)}
    scales = np.array([1, 2, 3], ml_dtypes.bfloat16)
    write_container(
        path,
        [
            of_pieces(
                arrays,
                ("w", FileRange(source, 10, 5)),
                ("s", scales[:1]),
                ("w", np.array([[50, 51]], np.uint8)),
                ("w", FileRange(source, 99, 0)),
                ("s", scales[1:]),
                ("w", FileRange(source, 95, 5)),
            )
        ],
        {},
    )
    written = Container.open(path)
    w = [10, 11, 12, 13, 14, 50, 51, 95, 96, 97, 98, 99]
    np.testing.assert_array_equal(written.read("w").ravel(), w)
    np.testing.assert_array_equal(written.read("s"), scales)
    assert written.read("none").size == 0


@pytest.mark.parametrize("size", [8 * MIB - 1, 8 * MIB, 33 * MIB + 3])
def test_ranges_and_arrays_longer_than_a_chunk(path, tmp_path, size):
    content = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    (tmp_path / "source").write_bytes(b"ab" + content.tobytes() + b"yz")
    stretch = FileRange(tmp_path / "source", 2, size)
    plan = [of_array("array", content), of_pieces({"range": u8(size)}, ("range", stretch))]
    header, digests, ranges = write_container(path, plan, {})
    written = Container.open(path)
    assert ranges == {stretch: digests["range"]}
    assert (
        header
        == hashlib.sha256(
            plan_layout({"array": u8(size), "range": u8(size)}, {}).header
        ).hexdigest()
    )
    for name in ("array", "range"):
        assert np.array_equal(written.read(name), content)
        assert digests[name] == hashlib.sha256(content.data).hexdigest()


def test_ranges_pass_through_little_memory(path, tmp_path):
    size = 96 * MIB
    with (tmp_path / "source").open("wb") as file:
        file.truncate(size)
    tensor = of_pieces({"x": u8(size)}, ("x", FileRange(tmp_path / "source", 0, size)))
    tracemalloc.start()
    try:
        write_container(path, [tensor], {})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 * MIB


def test_arrays_in_any_memory_order_are_written_in_c_order(path):
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    write_container(path, [of_array("t", array.T), of_array("s", array[:, ::2])], {})
    np.testing.assert_array_equal(Container.open(path).read("t"), array.T)
    np.testing.assert_array_equal(Container.open(path).read("s"), array[:, ::2])


def reused_array(source: Path) -> Iterator[tuple[str, Piece]]:
    """One buffer for all pieces, as a decoder that saves memory has it."""
    buffer = np.empty(MIB, np.uint8)
    for number in range(40):
        buffer[:] = number
        yield "x", buffer


def one_range(source: Path) -> Iterator[tuple[str, Piece]]:
    """More chunks than the writer has buffers."""
    yield "x", FileRange(source, 0, 40 * MIB)


def large_then_small_ranges(source: Path) -> Iterator[tuple[str, Piece]]:
    """The small one is hashed at once, the large one by and by."""
    yield "x", FileRange(source, 0, 8 * MIB)
    yield "x", FileRange(source, 8 * MIB, 5)
    yield "x", FileRange(source, 8 * MIB + 5, 32 * MIB - 5)


@pytest.mark.parametrize("stream", [reused_array, one_range, large_then_small_ranges])
def test_hashes_are_right_when_hashing_lags_behind(path, stream):
    """Here the second thread starts only when all that need not wait for it is done."""
    source = path.with_name("source")
    source.write_bytes(np.arange(40, dtype=np.uint8).repeat(MIB).tobytes())
    arrays = {"x": u8(40 * MIB)}
    gate = threading.Event()
    with _Target(path) as target, _Hashing() as hashing:
        layout = plan_layout(arrays, {})
        writer = _ArraysWriter(target, layout, arrays, hashing, on_bytes=lambda count: None)
        hashing.stored.submit(gate.wait)
        hashing.sources.submit(gate.wait)
        threading.Timer(0.5, gate.set).start()
        writer.take(planned(arrays, lambda: stream(source)))
        digests, ranges = writer.finish()

    assert digests == {"x": hash_file(source)}
    for piece, digest in ranges.items():
        content = source.read_bytes()[piece.offset : piece.offset + piece.length]
        assert digest == hashlib.sha256(content).hexdigest()
    assert path.read_bytes()[layout.offsets["x"] :] == source.read_bytes()


def test_planned_tensors_are_taken_in_file_order(path):
    taken: list[str] = []

    def tensor(name: str, dtype: str) -> PlannedTensor:
        def pieces() -> Iterator[tuple[str, Piece]]:
            taken.append(name)
            yield name, np.zeros(1, NUMPY_DTYPES[dtype])

        return planned({name: ArraySpec(dtype, (1,))}, pieces)

    plan = [tensor(*item) for item in [("a", "U8"), ("c", "F32"), ("d", "BF16"), ("b", "F32")]]
    digests = write_container(path, plan, {}).arrays

    assert taken == ["b", "c", "d", "a"]
    assert list(digests) == taken
    assert list(Container.open(path).tensors) == taken


def test_progress_adds_up_to_the_file(path):
    counts: list[int] = []
    array = np.zeros(20 * MIB, np.uint8)
    write_container(path, [of_array("x", array)], {}, on_bytes=counts.append)
    assert sum(counts) == path.stat().st_size
    assert len(counts) > 2


def test_until_the_end_the_file_is_no_container(path):
    def pieces() -> Iterator[tuple[str, Piece]]:
        yield "x", np.ones(100, np.uint8)
        with pytest.raises(ContainerError):  # complete but for the end of the stream
            Container.open(path)

    write_container(path, [planned({"x": u8(100)}, pieces)], {})
    Container.open(path)


# What must not happen; in every case no file is left.

ONES = np.ones(9, np.uint8)
BAD_PLANS = {
    "too few bytes": (
        [of_pieces({"x": u8(3), "y": u8(9)}, ("y", ONES[:7]), ("x", ONES[:3]))],
        "did not fill its arrays\n  y: 2 of 9 bytes are missing",
    ),
    "nothing at all": (
        [of_pieces({"x": u8(3), "y": u8(9)})],
        "did not fill its arrays\n  x: 3 of 3 bytes are missing\n  y: 9 of 9 bytes are missing",
    ),
    "too many bytes": (
        [of_pieces({"x": u8(3), "y": u8(9)}, ("x", ONES[:3]), ("x", ONES[:1]))],
        "x: got 1 bytes where 0 are left to be filled",
    ),
    "range too long": (
        [of_pieces({"x": u8(3)}, ("x", FileRange(Path(__file__), 0, 4)))],
        "x: got 4 bytes where 3 are left to be filled",
    ),
    "foreign array": (
        [of_array("x", ONES[:3]), of_pieces({"y": u8(3)}, ("x", ONES[:3]))],
        "y gave bytes of x, which it does not store",
    ),
    "other type of the same size": (
        [of_pieces({"x": ArraySpec("BF16", (3,))}, ("x", np.ones(3, np.float16)))],
        "x: expected values of type bfloat16, got float16",
    ),
    "stored twice": (
        [of_array("x", ONES[:3]), of_array("x", ONES[:3])],
        "the plan stores arrays more than once\n  x (again in x)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_PLANS)
def test_a_plan_that_does_not_fill_its_arrays_is_refused(path, case):
    plan, message = BAD_PLANS[case]
    with pytest.raises(OutputError) as caught:
        write_container(path, plan, {})
    assert message in str(caught.value)
    assert not path.exists()


def test_a_source_that_is_too_short_is_named(path, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(bytes(20 * MIB))
    tensor = of_pieces({"x": u8(20 * MIB)}, ("x", FileRange(source, 1, 20 * MIB)))
    with pytest.raises(SourceError, match=r"source ends at byte 20,971,520, .* byte 20,971,521"):
        write_container(path, [tensor], {})
    assert not path.exists()


def test_a_source_that_cannot_be_read_is_named(path, tmp_path):
    for source, reason in [(tmp_path / "gone", "No such file"), (tmp_path, "Is a directory")]:
        tensor = of_pieces({"x": u8(2)}, ("x", FileRange(source, 0, 2)))
        with pytest.raises(SourceError, match=f"{source} cannot be read: {reason}"):
            write_container(path, [tensor], {})
        assert not path.exists()


def test_errors_of_the_stream_come_through(path):
    def pieces() -> Iterator[tuple[str, Piece]]:
        yield "x", np.ones(1, np.uint8)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_container(path, [planned({"x": u8(2)}, pieces)], {})
    assert not path.exists()


def test_an_existing_file_is_kept(path):
    path.write_bytes(b"precious")
    with pytest.raises(OutputError, match=r"model.safetensors cannot be created: File exists"):
        write_container(path, [of_array("x", np.ones(3, np.uint8))], {})
    assert path.read_bytes() == b"precious"


def test_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(OutputError, match="cannot be created: No such file or directory"):
        write_container(tmp_path / "no" / "model.safetensors", [], {})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="Permission denied") as caught:
        write_container(tmp_path / "model.safetensors", [], {})
    assert caught.value.hint


def test_a_disk_that_takes_no_more(path):
    """A limit on file sizes stands for the full disk: the same call fails, in the same place."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10 * MIB, hard))
    try:
        with pytest.raises(OutputError, match="cannot be written: File too large") as caught:
            write_container(path, [of_array("x", np.zeros(20 * MIB, np.uint8))], {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.hint
    assert not path.exists()


def test_the_hash_of_a_file(tmp_path):
    (tmp_path / "file").write_bytes(b"abc" * MIB)
    assert hash_file(tmp_path / "file") == hashlib.sha256(b"abc" * MIB).hexdigest()
    with pytest.raises(PackageError, match="gone cannot be read: No such file"):
        hash_file(tmp_path / "gone")


def test_a_stretch_that_is_copied_twice_is_hashed_once(path, tmp_path):
    (tmp_path / "source").write_bytes(bytes(range(200)))
    stretch = FileRange(tmp_path / "source", 10, 100)
    plan = [
        of_pieces({"a": u8(200)}, ("a", stretch), ("a", stretch)),
        of_pieces({"b": u8(100)}, ("b", stretch)),
    ]
    ranges = write_container(path, plan, {}).ranges
    assert ranges == {stretch: hashlib.sha256(bytes(range(10, 110))).hexdigest()}
