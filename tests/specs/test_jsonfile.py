"""JSON from outside: what is valid comes through unchanged, what is dubious is refused."""

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from masu.specs.errors import ContainerError, SchemaError
from masu.specs.jsonfile import MAX_DEPTH, read_json, read_json_file

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    # Strings full of what the depth count must not mistake for structure; no lone surrogates.
    | st.text(st.sampled_from('[]{}"\\,:é😀\n')),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=20,
)  # fmt: skip


def nesting(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(nesting, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(nesting, value), default=0)
    return 0


@given(VALUES, st.booleans())
@settings(max_examples=100, deadline=None)
def test_every_value_comes_through_at_exactly_its_own_depth(value, ascii_only):
    data = json.dumps(value, ensure_ascii=ascii_only).encode()
    depth = nesting(value)

    assert read_json(data, "f.json", max_depth=depth) == value
    if depth:
        with pytest.raises(SchemaError, match=f"f.json is nested {depth} levels deep; at most"):
            read_json(data, "f.json", max_depth=depth - 1)


@given(st.text(st.sampled_from('[]{}",:\\ud8tfnaN0e19.- ')).map(str.encode) | st.binary())
@settings(max_examples=200, deadline=None)
def test_no_other_error_escapes(data):
    with contextlib.suppress(SchemaError):
        read_json(data, "f.json")


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'["\\"",{"x":['])
def test_hostile_depth_is_refused_without_recursion(opening):
    with pytest.raises(SchemaError, match=f"at most {MAX_DEPTH}"):
        read_json(opening * 300_000, "f.json")


@pytest.mark.parametrize("data", [b'"' + b'\\"[' * 300_000, b'"' * 300_001, b'"' + b"\\" * 300_001])
def test_unterminated_strings_are_scanned_in_linear_time(data):
    # A scan that starts over at each quote would need minutes here.
    with pytest.raises(SchemaError, match="not valid JSON"):
        read_json(data, "f.json")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "f.json is not valid JSON: Expecting value at line 1 column 1"),
        (b'{"a": 1}\n{}', "f.json is not valid JSON: Extra data at line 2 column 1"),
        (b'{"a": 1,}', "f.json is not valid JSON"),
        (b"{'a': 1}", "f.json is not valid JSON"),
        (b'"\xff"', "f.json is not UTF-8: invalid start byte at byte 1"),
        (b'"\xed\xa0\x80"', "f.json is not UTF-8"),
        (b"\xef\xbb\xbf{}", "f.json begins with a byte order mark"),
        (b'{"a": "\\ud83d"}', "f.json holds half of a surrogate pair"),
        (b'{"\\udc00": 1}', "f.json holds half of a surrogate pair"),
        (b"1" * 5000, "f.json holds a number that cannot be read"),
    ],
)
def test_refused(data, message):
    with pytest.raises(SchemaError, match=message):
        read_json(data, "f.json")


def test_a_pair_of_surrogates_is_one_character():
    assert read_json(b'"\\ud83d\\ude00"', "f.json") == "😀"


def test_every_dubious_key_and_number_is_listed():
    data = b'{"a": NaN, "b": {"c": 1, "c": 2, "c": 3}, "d": [-Infinity, 1e999, -1e999], "d": 0}'

    with pytest.raises(SchemaError) as caught:
        read_json(data, "f.json")

    assert caught.value.problems == (
        "the number NaN",
        "key 'c' 3 times",
        "the number -Infinity",
        "the number 1e999, which is beyond float64",
        "the number -1e999, which is beyond float64",
        "key 'd' 2 times",
    )


def test_the_caller_chooses_the_error_class():
    with pytest.raises(ContainerError, match=r"f.json"):
        read_json(b"nonsense", "f.json", error=ContainerError)


def test_size_is_bounded():
    assert read_json(b"[1]", "f.json", max_bytes=3) == [1]
    with pytest.raises(SchemaError, match="4 bytes of JSON; at most 3 are read"):
        read_json(b"[10]", "f.json", max_bytes=3)


def test_a_file_is_read_and_named(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"é": 1.5}', encoding="utf-8")
    assert read_json_file(path) == {"é": 1.5}

    path.write_text("{")
    with pytest.raises(SchemaError, match=r"config.json is not valid JSON"):
        read_json_file(path)


def test_a_huge_file_is_not_read(tmp_path):
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(2**40)  # more than any machine's memory; takes no space on disk
    with pytest.raises(SchemaError, match=r"config.json is larger than 100,000,000 bytes"):
        read_json_file(path)


def test_an_unreadable_file_is_named(tmp_path):
    with pytest.raises(ContainerError, match=r"nowhere.json cannot be read: No such file"):
        read_json_file(tmp_path / "nowhere.json", error=ContainerError)
    with pytest.raises(SchemaError, match="is not a regular file"):
        read_json_file(tmp_path)
