"""Hostile GGUF files: a typed error that names the file, soon, in little memory, and no output."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from gguf_files import write_gguf
from hostile_inputs import measured

import masu.pipeline


def at(offset: int, form: str, value: int) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        packed = struct.pack(form, value)
        return data[:offset] + packed + data[offset + len(packed) :]

    return change


NESTED = struct.pack("<Q", 1) + b"a" + struct.pack("<I", 9)
HEAD = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)
GGUFS: dict[str, Callable[[bytes], bytes]] = {
    "magic": lambda d: b"GGML" + d[4:],
    "version": at(4, "<I", 99),
    "big-endian": at(4, ">I", 3),
    "tensor count": at(8, "<Q", 2**63),
    "key count": at(16, "<Q", 2**63),
    "length of a key": at(24, "<Q", 2**62),
    "array of arrays": lambda d: HEAD + NESTED + struct.pack("<IQ", 9, 2**40) + bytes(64),
    "array of strings": lambda d: HEAD + NESTED + struct.pack("<IQ", 8, 2**40) + bytes(64),
    "array of numbers": lambda d: HEAD + NESTED + struct.pack("<IQ", 4, 2**61) + bytes(64),
    "truncated header": lambda d: d[:2000],
    "truncated data": lambda d: d[:-100],
    "more bytes": lambda d: d + bytes(1000),
    "HTML": lambda d: b"<!DOCTYPE html>",
    "empty": lambda d: b"",
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_gguf(path, "llama")
    assert masu.pipeline.plan(path, path.parent / "package").bytes > 0  # the twin of them all
    return path.read_bytes()


@pytest.mark.parametrize("name", GGUFS)
def test_a_hostile_gguf_is_refused(name: str, sound: bytes, tmp_path: Path) -> None:
    source = tmp_path / "source.gguf"
    source.write_bytes(GGUFS[name](sound))
    assert "source.gguf" in measured(source, tmp_path / "out")
