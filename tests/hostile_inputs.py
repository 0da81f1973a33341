"""Edits that make a sound checkpoint hostile, and what a refusal of it may cost and read."""

import json
import os
import resource
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from checkpoints import edit_json

import masu.pipeline
from masu.specs.errors import MasuError

MAX_SECONDS = 5.0
MAX_GROWTH = 300 * 2**20  # bytes over the peak before
WEIGHTS, CONFIG, TOKENIZER = "model.safetensors", "config.json", "tokenizer.json"
TEMPLATE, INDEX = "chat_template.jinja", "model.safetensors.index.json"
SHARD = "model-00001-of-00003.safetensors"

Edit = Callable[[Path], object]


def AS_IS(folder: Path) -> None:  # noqa: N802
    """The twin of most: the golden checkpoint itself."""


class Case(NamedTuple):
    """`names`: what the message must name."""

    names: str
    fault: Edit
    twin: Edit = AS_IS
    golden: str = "llama"


def header(change: Callable[[dict], object]) -> Edit:
    """Change the header of the weights as JSON; the data stay."""

    def edit(folder: Path) -> None:
        data = (folder / WEIGHTS).read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        values = json.loads(data[8 : 8 + length])
        changed = change(values)
        text = changed if isinstance(changed, bytes) else json.dumps(values).encode()
        (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])

    return edit


def entry(**changes: object) -> Edit:
    return header(lambda values: values["model.norm.weight"].update(changes) or None)


def offsets(change: Callable[[int, int], list]) -> Edit:
    def edit(values: dict) -> None:
        norm = values["model.norm.weight"]
        norm["data_offsets"] = change(*norm["data_offsets"])

    return header(lambda values: edit(values))


def raw(name: str, data: bytes) -> Edit:
    return lambda folder: (folder / name).write_bytes(data)


def prefix(name: str, change: Callable[[bytes], bytes]) -> Edit:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def text(name: str, old: str, new: str) -> Edit:
    def edit(folder: Path) -> None:
        before = (folder / name).read_text()
        assert old in before
        (folder / name).write_text(before.replace(old, new, 1))

    return edit


def keys(name: str, **changes: object) -> Edit:
    return lambda folder: edit_json(folder / name, lambda value: value.update(changes))


def template(source: str) -> Edit:
    return raw(TEMPLATE, source.encode())


def shard(name: object) -> Edit:
    return lambda folder: edit_json(
        folder / INDEX, lambda value: value["weight_map"].update({"lm_head.weight": name})
    )


def link(name: str, inside: bool = False) -> Edit:
    def edit(folder: Path) -> None:
        place = folder / "kept.txt" if inside else folder.parent / "outside"
        (folder / name).rename(place)
        (folder / name).symlink_to(place)

    return edit


def pipe(name: str) -> Edit:
    def edit(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return edit


def sparse(name: str) -> Edit:
    return lambda folder: os.truncate(folder / name, 2**36)


def only_pickles(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")


def pattern(regex: str) -> Edit:
    cut = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
    return lambda folder: edit_json(
        folder / TOKENIZER,
        lambda value: value.update(
            pre_tokenizer={"type": "Sequence", "pretokenizers": [cut, *_given(value)]}
        ),
    )


def replaced(pattern: dict, content: str, times: int) -> Edit:
    step = {"type": "Replace", "pattern": pattern, "content": content}
    return keys(TOKENIZER, normalizer={"type": "Sequence", "normalizers": [step] * times})


def _given(value: dict) -> list:
    given = value["pre_tokenizer"]
    return given["pretokenizers"] if given["type"] == "Sequence" else [given]


_LISTENERS: list[list[str]] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if _LISTENERS and event == "open" and isinstance(arguments[0], str | os.PathLike):
        _LISTENERS[-1].append(os.path.realpath(arguments[0]))


sys.addaudithook(_watch)  # for good: Python cannot take one away


@contextmanager
def watched() -> Iterator[list[str]]:
    """Every file that is opened meanwhile, by its real name."""
    _LISTENERS.append([])
    try:
        yield _LISTENERS[-1]
    finally:
        _LISTENERS.pop()


def outside(opened: list[str], source: Path, out: Path) -> list[str]:
    """What was opened beside the source, and that links and names in it may lead to."""
    around = os.path.realpath(source.parent)
    within = tuple(f"{os.path.realpath(path)}{os.sep}" for path in (source, out))
    return [
        path
        for path in opened
        if path in ("/etc/passwd", "/dev/zero")
        or (path.startswith(around) and not f"{path}{os.sep}".startswith(within))
    ]


def convert(source: Path, out: Path) -> None:
    masu.pipeline.convert(source, out / "package", verify=False)


def measured(source: Path, out: Path) -> str:
    """The message of the refusal; it took neither long nor much, and left nothing."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    with watched() as opened, pytest.raises(MasuError) as caught:
        convert(source, out)
    assert time.process_time() - began < MAX_SECONDS
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert growth * 1024 < MAX_GROWTH, f"{growth} kB"
    assert not out.exists()
    assert not outside(opened, source, out)
    return str(caught.value)
