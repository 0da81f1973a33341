"""`masu migrate`: the way to an older release and back changes no byte, and nothing is lost."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_cases import (
    CONV,
    D4S4,
    INPUT,
    LOW_RANK,
    QKV,
    Values,
    hybrid,
    int4,
    kept,
    made,
    mlx,
    on_codec,
    on_layer,
    on_mixer,
)
from golden import ENGINE_CASES, GOLDEN
from package_copies import add_manifest, edit_config
from written_packages import write_package

import masu
from masu.specs.check import check_package
from masu.specs.container_writer import write_container
from masu.specs.engines import ENGINES
from masu.specs.errors import EngineError, OutputError, PackageError, SchemaError
from masu.specs.package import Package
from masu.specs.respelling import respelled
from masu.specs.tensors import Matrix

OLD, NEW = "uzu-0.5", "uzu-0.6"
REASONING = "token_codec_config.reasoning_config"


def rewritten(case: str, folder: Path) -> Path:
    """A golden package as masu writes it, with a manifest."""
    package = Package.open(GOLDEN / case / "engine")
    contents = respelled(package, package.config, package.dialect)
    folder.mkdir()
    write_container(folder / "model.safetensors", contents.spelled, contents.metadata)
    (folder / "config.json").write_bytes(contents.config_json)
    (folder / "tokenizer.json").write_bytes(contents.tokenizer)
    add_manifest(folder, dtype=package.dtype)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def round_trip(package: Path, folder: Path) -> Package:
    """The package in between; the one that comes back has the same bytes, manifest included."""
    masu.migrate(package, folder / "old", engine=OLD)
    masu.migrate(folder / "old", folder / "back", engine=NEW)
    assert files(folder / "back") == files(package)
    assert not [found for found in check_package(folder / "old") if found.kind == "integrity"]
    return Package.open(folder / "old")


@pytest.mark.parametrize("case", ENGINE_CASES)
def test_golden_packages_go_to_the_older_release_and_back(case: str, tmp_path: Path) -> None:
    package = rewritten(case, tmp_path / "new")
    if case == "qwen3_next":
        with pytest.raises(EngineError) as caught:
            masu.migrate(package, tmp_path / "old", engine=OLD)
        assert "layer_configs[1].mixer_config.has_qkvg_biases" in caught.value.problems[0]
        assert not (tmp_path / "old").exists()
        return
    old = round_trip(package, tmp_path)
    assert (old.dialect.name, old.planes) == (OLD, "row_major")
    if case in ("llama-int4-g32-asym", "qwen3_5", "llama-rht-all"):
        assert_same_values(Package.open(package), old)


def assert_same_values(a: Package, b: Package) -> None:
    for name, entry in a.config.tensors():
        if not isinstance(entry, Matrix):
            assert np.array_equal(a.read(name), b.read(name))
            continue
        values = []
        for package in (a, b):
            suffixes = package.formats[name].arrays(entry.shape, package.dtype, package.planes)
            arrays = {suffix: package.read(f"{name}.{suffix}") for suffix in suffixes}
            format_ = package.formats[name]
            values.append(format_.decode(arrays, entry.shape, package.planes, np.float64))
        assert np.array_equal(*values)


def test_the_older_package_is_spelled_as_that_release_reads_it(tmp_path: Path) -> None:
    """Gated attention in two projections, row-major planes, by the release's own words."""
    package = rewritten("qwen3_5-mlx-4bit", tmp_path / "new")
    masu.migrate(package, tmp_path / "old", engine=OLD)
    config = json.loads((tmp_path / "old/config.json").read_text())
    layers = config["decoder_config"]["transformer_config"]["layer_configs"]
    index, mixer = next(
        (i, layer["mixer_config"])
        for i, layer in enumerate(layers)
        if layer["mixer_config"]["type"] == "AttentionConfig"
    )
    assert mixer["gate_projection_config"] == {}
    assert not {"has_gate", "qkvg_projection_config"} & mixer.keys()
    container = Package.open(tmp_path / "old").container
    prefix = f"decoder.transformer.layers.{index}.mixer"
    heads = mixer["num_heads"] * mixer["head_dim"]
    keys = mixer["num_groups"] * mixer["head_dim"]
    rows = {"gate_projection": heads, "qkv_projection": heads + 2 * keys}
    fused = Package.open(package).container
    whole = fused.read(f"{prefix}.qkvg_projection.weights.weights")
    for name, count in rows.items():
        codes = container.read(f"{prefix}.{name}.weights.weights")
        assert codes.shape[0] == count
        assert np.array_equal(codes, whole[:count] if name != "gate_projection" else whole[-count:])
        assert container.tensors[f"{prefix}.{name}.weights.scales"].shape[0] == count
        assert f"{prefix}.{name}.weights.spec" in container.metadata


GATED = on_mixer(has_gate=True)
ASYMMETRIC = int4(is_symmetric=False)


@pytest.mark.parametrize(
    "spec",
    [ASYMMETRIC, int4(bits=8, is_symmetric=False), mlx(), hybrid(), hybrid(adapter_spec=LOW_RANK)],
)
def test_gates_in_every_format(spec: Values, tmp_path: Path) -> None:
    package = write_package(tmp_path / "new", kept(QKV, spec, GATED).candidate())
    old = round_trip(package, tmp_path)
    assert_same_values(Package.open(package), old)


def test_gates_that_share_a_cache(tmp_path: Path) -> None:
    """Only Q and the gate: both parts have as many rows, and are still told apart."""
    shares = on_layer(kv_source_layer_index=0)
    candidate = made(on_mixer(has_gate=True, is_kv_sharing=True), shares).candidate()
    package = write_package(tmp_path / "new", candidate)
    assert_same_values(Package.open(package), round_trip(package, tmp_path))


def test_parts_in_two_formats_are_no_matrix(tmp_path: Path) -> None:
    package = write_package(tmp_path / "new", kept(QKV, int4(), GATED).candidate())
    masu.migrate(package, tmp_path / "old", engine=OLD)
    weights = tmp_path / "old/model.safetensors"
    key = b"gate_projection.weights.spec"
    data = weights.read_bytes()
    at = data.index(b'"IntSpec', data.index(key)) if b'"IntSpec' in data else -1
    at = at if at >= 0 else data.index(b"IntSpec", data.index(key))
    group = data.index(b"group_size", at)
    data = data[:group] + data[group:].replace(b"32", b"64", 1)
    weights.write_bytes(data)
    with pytest.raises(SchemaError) as caught:
        Package.open(tmp_path / "old")
    assert "the format of the rows above it" in "".join(caught.value.problems)


def test_parts_with_signs_of_their_own_are_no_matrix(tmp_path: Path) -> None:
    package = write_package(tmp_path / "new", kept(QKV, hybrid(), GATED).candidate())
    masu.migrate(package, tmp_path / "old", engine=OLD)
    old = Package.open(tmp_path / "old")
    name = QKV.replace("qkvg_projection", "gate_projection")
    place = old.container.range(f"{name}.incoherence_signs.input_signs")
    data = bytearray((tmp_path / "old/model.safetensors").read_bytes())
    data[place.offset : place.offset + 4] = np.int32(
        -int.from_bytes(data[place.offset : place.offset + 4], "little", signed=True)
    ).tobytes()
    (tmp_path / "old/model.safetensors").write_bytes(data)
    with pytest.raises(PackageError, match="its parts differ"):
        masu.migrate(tmp_path / "old", tmp_path / "back", engine=NEW)


def test_reasoning_goes_through_the_manifest(tmp_path: Path) -> None:
    package = rewritten("qwen3", tmp_path / "new")
    done = masu.migrate(package, tmp_path / "old", engine=OLD)
    assert done.carried == (REASONING,)
    manifest = json.loads((tmp_path / "old/manifest.json").read_text())
    config = json.loads((package / "config.json").read_text())
    assert manifest["carried"] == {REASONING: config["token_codec_config"]["reasoning_config"]}
    assert masu.migrate(tmp_path / "old", tmp_path / "back", engine=NEW).restored == (REASONING,)
    assert "carried" not in json.loads((tmp_path / "back/manifest.json").read_text())


def test_reasoning_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as caught:
        masu.migrate(GOLDEN / "qwen3/engine", tmp_path / "old", engine=OLD)
    assert caught.value.problems[0].startswith(f"{REASONING}: ")
    assert not (tmp_path / "old").exists()


@pytest.mark.parametrize(
    ("package", "place"),
    [
        (made(on_layer(mixer_conv_config=CONV)), "layer_configs[0].mixer_conv_config"),
        (made(on_layer(mlp_conv_config=CONV)), "layer_configs[0].mlp_conv_config"),
        (kept(INPUT, D4S4), f"{INPUT}: D4S4"),
    ],
)
def test_what_has_tensors_and_no_words_is_refused(package: Any, place: str, tmp_path: Path) -> None:
    write_package(tmp_path / "new", package.candidate())
    with pytest.raises(EngineError) as caught:
        masu.migrate(tmp_path / "new", tmp_path / "old", engine=OLD)
    assert place in "\n".join(caught.value.problems)
    assert not (tmp_path / "old").exists()


def test_a_package_of_the_release_already_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"written for uzu-0\.6 already"):
        masu.migrate(GOLDEN / "llama/engine", tmp_path / "out", engine=NEW)


def with_response_format(folder: Path, value: Any) -> Path:
    """config.json as it was between two releases."""

    def edit(config: Any) -> None:
        codec = config["token_codec_config"]
        config["token_codec_config"] = {
            ("response_format" if key == "output_parser_regex" else key): (
                value if key == "output_parser_regex" else item
            )
            for key, item in codec.items()
            if key != "end_of_thinking_tag"
        }

    edit_config(folder, edit)
    return folder


THINK = {"reasoning_pattern": "(?P<response>.*)", "end_of_thinking_tag": "</think>"}


@pytest.mark.parametrize(("value", "pattern"), [(THINK, "(?P<response>.*)"), (None, None)])
def test_response_format_is_diagnosed_and_repaired(
    value: Any, pattern: str | None, tmp_path: Path
) -> None:
    package = with_response_format(rewritten("llama", tmp_path / "between"), value)
    [found] = [found for found in check_package(package) if found.kind == "engine"]
    assert "token_codec_config.response_format" in found.message
    assert "masu migrate" in found.message
    done = masu.migrate(package, tmp_path / "repaired")
    assert done.repaired == ("token_codec_config.response_format",)
    codec = json.loads((tmp_path / "repaired/config.json").read_text())["token_codec_config"]
    original = json.loads((GOLDEN / "llama/engine/config.json").read_text())["token_codec_config"]
    tag = None if value is None else "</think>"
    assert codec == {**original, "output_parser_regex": pattern, "end_of_thinking_tag": tag}
    assert list(codec) == list(original)
    assert not [f for f in check_package(tmp_path / "repaired") if f.is_problem]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({**THINK, "tool_pattern": "x"}, "response_format.tool_pattern: not known"),
        ("think", "response_format: expected null or an object"),
    ],
)
def test_an_unknown_response_format_is_refused(value: Any, problem: str, tmp_path: Path) -> None:
    package = with_response_format(rewritten("llama", tmp_path / "between"), value)
    with pytest.raises(SchemaError) as caught:
        masu.migrate(package, tmp_path / "repaired")
    assert problem in caught.value.problems[0]


def test_companions_go_along_and_the_target_is_respected(tmp_path: Path) -> None:
    package = write_package(tmp_path / "new", made(on_codec()).candidate())
    (package / "encoding.json").write_text("{}")
    write_package(package / "speculator", made().candidate())
    masu.migrate(package, tmp_path / "old", engine=OLD)
    assert (tmp_path / "old/encoding.json").read_text() == "{}"
    assert Package.open(tmp_path / "old/speculator").dialect.name == OLD
    with pytest.raises(OutputError):
        masu.migrate(package, tmp_path / "old", engine=OLD)
    masu.migrate(package, tmp_path / "old", engine=OLD, overwrite=True)


def test_a_broken_package_is_not_migrated(tmp_path: Path) -> None:
    package = tmp_path / "package"
    shutil.copytree(GOLDEN / "llama/engine", package)
    (package / "model.safetensors").write_bytes(b"")
    with pytest.raises(PackageError):
        masu.migrate(package, tmp_path / "old", engine=OLD)


def test_engines_and_dialects_have_the_same_names() -> None:
    assert all(engine.dialect.name == name for name, engine in ENGINES.items())
