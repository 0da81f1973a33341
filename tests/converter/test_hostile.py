"""Hostile sources: a typed error that names the file, soon, in little memory, and no output.

Each case edits a copy of a sound checkpoint; its twin, nearly the same, converts.
"""

import json
import os
import resource
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from checkpoints import copy_golden, edit_json
from gguf_files import write_gguf

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


def _given(value: dict) -> list:
    given = value["pre_tokenizer"]
    return given["pretokenizers"] if given["type"] == "Sequence" else [given]


DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
NAMESPACE = "{% set ns = namespace(s='xxxxxxxx', d=[]) %}"
SAY = "{{ messages[0].content }}"

CASES: dict[str, Case] = {
    "header of 2**63 bytes": Case(
        WEIGHTS, prefix(WEIGHTS, lambda d: struct.pack("<Q", 2**63) + d[8:])
    ),
    "header longer than the file": Case(
        WEIGHTS, prefix(WEIGHTS, lambda d: struct.pack("<Q", len(d)) + d[8:])
    ),
    "header nested without end": Case(WEIGHTS, header(lambda v: DEEP)),
    "header of brackets": Case(WEIGHTS, header(lambda v: b"{" + b"[" * 10_000_000)),
    "overlapping": Case(
        WEIGHTS, offsets(lambda a, b: [a - 16, b - 16]), offsets(lambda a, b: [a, b])
    ),
    "gap": Case(WEIGHTS, offsets(lambda a, b: [a + 16, b + 16])),
    "negative offset": Case(WEIGHTS, offsets(lambda a, b: [-16, b - a - 16])),
    "offset beyond 2**64": Case(WEIGHTS, offsets(lambda a, b: [2**64, 2**64 + b - a])),
    "offset that is a float": Case(WEIGHTS, offsets(lambda a, b: [float(a), float(b)])),
    "shape beyond every machine": Case(WEIGHTS, entry(shape=[2**40, 2**40])),
    "shape with a negative axis": Case(WEIGHTS, entry(shape=[-64])),
    "a million axes": Case(WEIGHTS, entry(shape=[1] * 1_000_000)),
    "unknown type": Case(WEIGHTS, entry(dtype="F7")),
    "tensor twice": Case(
        WEIGHTS,
        header(lambda v: b'{"model.norm.weight":' + json.dumps(v["model.norm.weight"]).encode()
               + b"," + json.dumps(v).encode()[1:]),
    ),
    "metadata that is no text": Case(
        WEIGHTS, header(lambda v: v.update(__metadata__={"a": {"b": 1}})),
        header(lambda v: v.update(__metadata__={"a": "b"})),
    ),
    "trailing bytes": Case(WEIGHTS, prefix(WEIGHTS, lambda d: d + b"more")),
    "cut short": Case(WEIGHTS, prefix(WEIGHTS, lambda d: d[:-1])),
    "a terabyte of nothing": Case(WEIGHTS, sparse(WEIGHTS)),
    "LFS pointer": Case(WEIGHTS, raw(WEIGHTS, b"version https://git-lfs.github.com/spec/v1\n")),
    "LFS pointer for the tokenizer": Case(TOKENIZER, raw(TOKENIZER, b"version https://git-lfs")),
    "HTML weights": Case(WEIGHTS, raw(WEIGHTS, b"<!DOCTYPE html><html></html>")),
    "HTML config": Case(CONFIG, raw(CONFIG, b"<!DOCTYPE html><html></html>")),
    "pickles only": Case("pytorch_model.bin", only_pickles,
                         raw("pytorch_model.bin", b"\x80\x04cos\nsystem\n")),
    "shard above": Case("../x.safetensors", shard("../x.safetensors"), golden="qwen2"),
    "absolute shard": Case("/etc/passwd", shard("/etc/passwd"), golden="qwen2"),
    "shard that is a list": Case(INDEX, shard([SHARD]), golden="qwen2"),
    "deep index": Case(INDEX, raw(INDEX, DEEP), golden="qwen2"),
    "link out: config": Case(CONFIG, link(CONFIG), link(CONFIG, inside=True)),
    "link out: tokenizer": Case(TOKENIZER, link(TOKENIZER), link(TOKENIZER, inside=True)),
    "link out: weights": Case(WEIGHTS, link(WEIGHTS), link(WEIGHTS, inside=True)),
    "link to a device": Case(CONFIG, lambda f: ((f / CONFIG).unlink(),
                                                (f / CONFIG).symlink_to("/dev/zero"))),
    "pipe: config": Case(CONFIG, pipe(CONFIG)),
    "pipe: weights": Case(WEIGHTS, pipe(WEIGHTS)),
    "deep config": Case(CONFIG, raw(CONFIG, DEEP)),
    "key twice": Case(CONFIG, text(CONFIG, "{", '{"vocab_size": 1,')),
    "NaN": Case(CONFIG, text(CONFIG, '"rms_norm_eps": ', '"rms_norm_eps": NaN, "x": ')),
    "1e999": Case(CONFIG, text(CONFIG, '"rms_norm_eps": ', '"rms_norm_eps": 1e999, "x": ')),
    "number of a million digits": Case(
        CONFIG, text(CONFIG, '"rms_norm_eps": ', f'"rms_norm_eps": {"9" * 1_000_000}, "x": ')
    ),
    "huge config": Case(CONFIG, sparse(CONFIG)),
    "huge tokenizer": Case(TOKENIZER, sparse(TOKENIZER)),
    "deep tokenizer": Case(TOKENIZER, raw(TOKENIZER, DEEP)),
    "not UTF-8": Case(CONFIG, prefix(CONFIG, lambda d: d.replace(b"{", b'{"\xff": 1,', 1))),
    "sizes beyond every machine": Case(
        "vocab_size", keys(CONFIG, vocab_size=2**62), keys(CONFIG, vocab_size=320)
    ),
    "layers beyond every machine": Case(
        "num_hidden_layers", keys(CONFIG, num_hidden_layers=10**12)
    ),
    "remote code": Case("auto_map", keys(CONFIG, auto_map={"AutoModel": "evil.Model"})),
    "pattern with a repeat in a repeat": Case(
        TOKENIZER, pattern("(a+)+b"), pattern("a+b")
    ),
    "template: billion steps": Case(
        "template", template("{% for i in range(99999) %}{% for j in range(99999) %}"
                             "{% endfor %}{% endfor %}"),
        template("{% for i in range(99) %}{% for j in range(9) %}{% endfor %}{% endfor %}" + SAY),
    ),
    "template: range(10**9)": Case("template", template("{{ range(10**9)|list }}"),
                                   template("{{ range(9)|list|length }}")),
    "template: attribute walk": Case(
        "template", template("{{ ''.__class__.__mro__[1].__subclasses__() }}"), template(SAY)
    ),
    "template: string doubling": Case(
        "template",
        template(NAMESPACE + "{% for i in range(40) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"),
        template(NAMESPACE + "{% for i in range(4) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"),
    ),
    "template: list doubling": Case(
        "template",
        template(NAMESPACE + "{% for i in range(30) %}{% set ns.d = [ns.d, ns.d] %}{% endfor %}"
                 "{{ ns.d }}"),
        template(NAMESPACE + "{% for i in range(30) %}{% set ns.d = ns.d + [i] %}{% endfor %}"
                 "{{ ns.d|length }}"),
    ),
    "template: doubling by hand": Case(
        "template",
        template("{% set a0 = [1] %}" + "".join(f"{{% set a{i + 1} = [a{i}, a{i}] %}}"
                                                for i in range(30)) + "{{ a30|tojson }}"),
        template("{% set a0 = [1] %}{% set a1 = [a0, a0] %}{{ a1|tojson }}"),
    ),
    "template: a namespace in itself": Case(
        "template", template("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}"),
        template("{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}"),
    ),
    "template: growth by a macro": Case(
        "template", template("{% macro f(x, n) %}{% if n %}{{ f([x, x], n - 1) }}{% else %}{{ x }}"
                             "{% endif %}{% endmacro %}{{ f([1], 30) }}"),
        template("{% macro f(x, n) %}{% if n %}{{ f(x, n - 1) }}{% else %}{{ x }}"
                 "{% endif %}{% endmacro %}{{ f('a', 3) }}"),
    ),
    "template: recursion": Case(
        "template", template("{% macro f(a) %}{{ f(a) }}{% endmacro %}{{ f(1) }}")
    ),
    "template: wide format": Case("template", template("{{ '{:>1000000000}'.format(1) }}"),
                                  template("{{ '{:>10}'.format(1) }}")),
    "template: 50 MB": Case(
        "template", template("{% for i in range(50) %}{{ 'x' * 1000000 }}{% endfor %}"),
        template("{% for i in range(5) %}{{ 'x' * 100 }}{% endfor %}"),
    ),
    "template: include": Case("template", template("{% include '/etc/passwd' %}")),
    "template: import": Case("template", template("{% import 'os' as os %}{{ os }}")),
    "template: deep brackets": Case(
        "template", template("{{ " + "(" * 50_000 + "1" + ")" * 50_000)
    ),
}  # fmt: skip


def convert(source: Path, out: Path) -> None:
    masu.pipeline.convert(source, out / "package", verify=False)


def measured(source: Path, out: Path) -> str:
    """The message of the refusal; it took neither long nor much, and left nothing."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    with pytest.raises(MasuError) as caught:
        convert(source, out)
    assert time.process_time() - began < MAX_SECONDS
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert growth * 1024 < MAX_GROWTH, f"{growth} kB"
    assert not out.exists()
    return str(caught.value)


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_checkpoint_is_refused(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    source = copy_golden(case.golden, tmp_path / "source")
    case.fault(source)
    assert case.names in measured(source, tmp_path / "out")


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.twin is not AS_IS])
def test_its_twin_is_planned(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    source = copy_golden(case.golden, tmp_path / "source")
    case.twin(source)
    assert masu.pipeline.plan(source, tmp_path / "package").bytes > 0


def gguf(change: Callable[[bytes], bytes]) -> Edit:
    return lambda path: path.write_bytes(change(path.read_bytes()))


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


def test_there_are_enough_cases() -> None:
    assert len(CASES) + len(GGUFS) >= 70
