"""Hostile sources: a typed error that names the file, soon, in little memory, and no output.

Each case edits a copy of a sound checkpoint; its twin, nearly the same, converts.
"""

import json
import os
import struct
from pathlib import Path

import pytest
from checkpoints import copy_golden
from hostile_inputs import (
    AS_IS,
    CONFIG,
    INDEX,
    SHARD,
    TOKENIZER,
    WEIGHTS,
    Case,
    entry,
    header,
    keys,
    link,
    measured,
    offsets,
    only_pickles,
    outside,
    pattern,
    pipe,
    prefix,
    raw,
    replaced,
    shard,
    sparse,
    template,
    text,
    watched,
)

import masu.pipeline
from masu.planning import plan
from masu.verification.judge import compare

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
    "an index of 30,000 shards": Case(
        "m0.safetensors",
        raw(INDEX, json.dumps({"weight_map": {f"t{i}": f"m{i}.safetensors"
                                              for i in range(30_000)}}).encode()),
        golden="qwen2",
    ),
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
    "pattern of the cube of a text": Case(
        TOKENIZER, pattern(r"\s*[\r\n]*\s*(?!\s)x"), pattern(r"\s*[\r\n]+|\s+(?!\S)")
    ),
    "pattern of thirty choices": Case(
        TOKENIZER, pattern("a?" * 30 + "b"), pattern("a?a?b|a{0,30}")
    ),
    "pattern of thirty choices in a group": Case(
        TOKENIZER, pattern("(?:" + "a?" * 30 + ")[bd]"), pattern("(?:" + "a?" * 8 + ")[bd]")
    ),
    "pattern with a repeated quantifier": Case(
        TOKENIZER, pattern("a{1,9}+b"), pattern("a{1,9}b|c{1,3}+")
    ),
    "pattern that calls itself": Case(
        TOKENIZER, pattern(r"(?<x>a\g<x>?a?)b"), pattern("(?<x>aa?)b")
    ),
    "pattern under an escaped key": Case(
        TOKENIZER,
        lambda f: (pattern("a*a*b")(f), text(TOKENIZER, '"Regex"', '"\\u0052egex"')(f)),
        lambda f: (pattern("a*b")(f), text(TOKENIZER, '"Regex"', '"\\u0052egex"')(f)),
    ),
    "tokenizer that doubles forty times": Case(
        TOKENIZER, replaced({"String": "e"}, "ee", 40), replaced({"String": "e"}, "ee", 4)
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
    "template: a list repeated": Case(
        "template", template("{{ [1] * 99999999 }}"), template("{{ ([1] * 99)|length }}")
    ),
    "template: a list repeated by a macro": Case(
        "template", template("{% macro f(x, n) %}{% if n %}{{ f(x * 9, n - 1) }}{% else %}{{ x }}"
                             "{% endif %}{% endmacro %}{{ f([1], 8) }}"),
        template("{% macro f(x) %}{{ x * 9 }}{% endmacro %}{{ f([1]) }}"),
    ),
    "template: a list added to itself": Case(
        "template",
        template(NAMESPACE + "{% for i in range(40) %}{% set ns.d = ns.d + [i] + (ns.d) %}"
                 "{% endfor %}{{ ns.d }}"),
        template(NAMESPACE + "{% for i in range(40) %}{% set ns.d = ns.d + [i] %}{% endfor %}"
                 "{{ ns.d|length }}"),
    ),
    "template: a list added to itself by names": Case(
        "template",
        template("{% set a0 = [1] %}" + "".join(f"{{% set a{i + 1} = a{i} + a{i} %}}"
                                                for i in range(40)) + "{{ a40 }}"),
        template("{% set a0 = [1] %}{% set a1 = a0 + a0 %}{% set a2 = a1 + a0 %}{{ a2|length }}"),
    ),
    "template: include": Case("template", template("{% include '/etc/passwd' %}")),
    "template: import": Case("template", template("{% import 'os' as os %}{{ os }}")),
    "template: deep brackets": Case(
        "template", template("{{ " + "(" * 50_000 + "1" + ")" * 50_000)
    ),
}  # fmt: skip


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


def test_what_is_opened_outside_is_seen(tmp_path: Path) -> None:
    """Otherwise the check of every case could not fail."""
    source = copy_golden("llama", tmp_path / "source")
    link(CONFIG)(source)
    with watched() as opened:
        (source / CONFIG).read_bytes()
        (source / TOKENIZER).read_bytes()
    read = outside(opened, source, tmp_path / "out")
    assert read == [os.path.realpath(tmp_path / "outside")]


def test_code_that_lies_in_the_folder_is_never_run(tmp_path: Path) -> None:
    """A tokenizer's class and, of a family whose checkpoints carry one, a model's."""
    source, run = copy_golden("phi3", tmp_path / "source"), tmp_path / "run"
    for module in ("evil", "modeling_phi3", "tokenization_phi3"):
        (source / f"{module}.py").write_text(f"open({str(run)!r}, 'w')\nclass Evil: pass")
    keys(CONFIG, auto_map={"AutoModelForCausalLM": "modeling_phi3.Evil",
                           "AutoConfig": "evil.Evil"})(source)  # fmt: skip
    own = {"AutoTokenizer": ["tokenization_phi3.Evil", None]}
    keys("tokenizer_config.json", auto_map=own, tokenizer_class="Evil")(source)
    planned = plan(source)
    _, found = compare(planned.conversion, planned.checkpoint)
    assert found.diverging is None
    assert not run.exists()


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 60
