"""Packages opened strictly: the golden ones hold together, and each broken one names its place."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden import ENGINE_CASES, GOLDEN
from package_copies import WEIGHTS, Weights, add_manifest, copy_package, edit_config, edit_weights

from masu.specs.errors import (
    ContainerError,
    NotAPackage,
    SchemaError,
    TensorError,
)
from masu.specs.package import Package
from masu.specs.tensors import Matrix

LAYER = "decoder.transformer.layers.0"
UP = f"{LAYER}.mlp.up_projection.weights"


@pytest.mark.parametrize("case", ENGINE_CASES)
def test_golden_package_opens(case: str) -> None:
    folder = GOLDEN / case / "engine"
    package = Package.open(folder)
    stored = Weights.load(folder)
    assert {name: (spec.dtype, list(spec.shape)) for name, spec in package.tensors().items()} == {
        name: (entry["dtype"], entry["shape"]) for name, entry in stored.entries.items()
    }
    assert package.dialect.name == "uzu-0.6"
    assert package.dtype == "BF16"
    assert package.manifest is None


@pytest.mark.parametrize("case", ENGINE_CASES)
def test_golden_config_is_written_as_it_was_read(case: str) -> None:
    folder = GOLDEN / case / "engine"
    text = json.dumps(Package.open(folder).config.model_dump(), indent=4)
    assert text.encode() == (folder / "config.json").read_bytes()


@pytest.mark.parametrize("case", ["llama", "llama-rht-all"])
def test_golden_specs_are_written_as_they_were_read(case: str) -> None:
    folder = GOLDEN / case / "engine"
    written: dict[str, str] = {}
    for path, format_ in Package.open(folder).formats.items():
        written |= format_.metadata(path)
    assert written == Weights.load(folder).metadata


def test_read_gives_the_stored_array() -> None:
    folder = GOLDEN / "llama-int4-g32-asym/engine"
    package, name = Package.open(folder), f"{UP}.zero_points"
    array = package.read(name)
    assert (array.dtype, array.shape) == (np.uint8, package.tensors()[name].shape)
    assert array.tobytes() == Weights.load(folder).data[name]


def test_manifest_is_read(tmp_path: Path) -> None:
    folder = copy_package("llama", tmp_path)
    add_manifest(folder)
    manifest = Package.open(folder).manifest
    assert manifest is not None
    assert set(manifest.files) == {"config.json", f"{WEIGHTS}: header", "tokenizer.json"}


def layer(config: Any) -> Any:
    return config["decoder_config"]["transformer_config"]["layer_configs"][0]


def broken(tmp_path: Path, case: str = "llama") -> Path:
    folder = copy_package(case, tmp_path)
    add_manifest(folder)
    return folder


CONFIG_FAULTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "extra field": (
        lambda config: layer(config)["mlp_config"].update(clip=None),
        "layer_configs[0].mlp_config.clip: unknown field",
    ),
    "missing nullable field": (
        lambda config: layer(config).pop("mixer_conv_config"),
        "layer_configs[0].mixer_conv_config: missing; every field is required, write null",
    ),
    "wrong type tag": (
        lambda config: layer(config)["mixer_config"].update(type="Attention"),
        "layer_configs[0].mixer_config.type: expected one of AttentionConfig,",
    ),
    "field of another release in one layer": (
        lambda config: layer(config)["mixer_config"].update(has_qkv_biases=False),
        "layer_configs[0].mixer_config.has_qkvg_biases: not a field of uzu 0.5",
    ),
}


@pytest.mark.parametrize("fault", CONFIG_FAULTS)
def test_broken_config(tmp_path: Path, fault: str) -> None:
    edit, problem = CONFIG_FAULTS[fault]
    folder = broken(tmp_path)
    edit_config(folder, edit)
    with pytest.raises(SchemaError) as caught:
        Package.open(folder)
    assert any(problem in line for line in caught.value.problems), caught.value.problems


def respec(key: str, **changes: Any) -> Callable[[Weights], None]:
    def edit(weights: Weights) -> None:
        weights.metadata[key] = json.dumps(json.loads(weights.metadata[key]) | changes)

    return edit


SPEC_FAULTS: dict[str, tuple[str, Callable[[Weights], Any], str]] = {
    "missing spec": (
        "llama",
        lambda weights: weights.metadata.pop(f"{UP}.spec"),
        f"{UP}.spec: missing; every matrix has exactly one",
    ),
    "spec of no matrix": (
        "llama",
        lambda weights: weights.metadata.update({"format": "pt"}),
        "format: no matrix of config.json has this",
    ),
    "spec that is not JSON": (
        "llama",
        lambda weights: weights.metadata.update({f"{UP}.spec": "FullPrecision"}),
        f"{UP}.spec is not valid JSON",
    ),
    "unknown format": (
        "llama",
        respec(f"{UP}.spec", type="FullPrecision"),
        f"{UP}.spec: type: expected one of",
    ),
    "other layout": (
        "llama",
        respec(f"{UP}.spec", layout="input_output"),
        f"{UP}.spec: expected layout output_input, found input_output",
    ),
    "groups that do not divide": (
        "llama-int4-g32-asym",
        respec(f"{UP}.spec", group_size=48),
        f"{UP}.spec: 64 columns are not a multiple of the group size 48",
    ),
    "no spec of a hybrid's core": (
        "llama-rht-int4",
        lambda weights: weights.metadata.pop(f"{UP}.quantized.spec"),
        f"{UP}.quantized.spec: missing",
    ),
    "hybrid that contradicts its core": (
        "llama-rht-int4",
        respec(f"{UP}.quantized.spec", group_size=64),
        f"{UP}.quantized.spec: expected",
    ),
}


@pytest.mark.parametrize("fault", SPEC_FAULTS)
def test_broken_spec(tmp_path: Path, fault: str) -> None:
    case, edit, problem = SPEC_FAULTS[fault]
    folder = broken(tmp_path, case)
    edit_weights(folder, edit)
    with pytest.raises(SchemaError) as caught:
        Package.open(folder)
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith(problem)


NORM = f"{LAYER}.pre_mlp_norm.scales"
TENSOR_FAULTS: dict[str, tuple[Callable[[Weights], Any], str]] = {
    "unknown tensor": (
        lambda weights: weights.put("decoder.extra", "U8", [3], b"abc"),
        "decoder.extra: unexpected; found U8 [3]",
    ),
    "missing tensor": (
        lambda weights: weights.drop(NORM),
        f"{NORM}: missing; expected F32 [64]",
    ),
    "wrong shape": (
        lambda weights: weights.entries[NORM].update(shape=[8, 8]),
        f"{NORM}: wrong shape; expected F32 [64], found F32 [8, 8]",
    ),
    "wrong dtype of a norm": (
        lambda weights: weights.entries[NORM].update(dtype="I32"),
        f"{NORM}: wrong dtype; expected F32 [64], found I32 [64]",
    ),
    "a matrix in another dtype than the rest": (
        lambda weights: weights.entries[f"{UP}.weights"].update(dtype="F16"),
        f"{UP}.weights: wrong dtype; expected BF16 [256, 64], found F16 [256, 64]",
    ),
}


@pytest.mark.parametrize("fault", TENSOR_FAULTS)
def test_broken_table(tmp_path: Path, fault: str) -> None:
    edit, problem = TENSOR_FAULTS[fault]
    folder = broken(tmp_path)
    edit_weights(folder, edit)
    with pytest.raises(TensorError) as caught:
        Package.open(folder)
    assert caught.value.problems == (problem,)


def test_all_broken_tensors_are_in_one_error(tmp_path: Path) -> None:
    folder = broken(tmp_path)
    for edit, _ in list(TENSOR_FAULTS.values())[:2]:
        edit_weights(folder, edit)
    with pytest.raises(TensorError) as caught:
        Package.open(folder)
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize("dtype", ["F16", "I16"])
def test_model_dtype_is_that_of_the_file(tmp_path: Path, dtype: str) -> None:
    """I16 has the right size, but is no type for parameters."""
    folder = copy_package("llama", tmp_path)

    def edit(weights: Weights) -> None:
        for entry in weights.entries.values():
            if entry["dtype"] == "BF16":
                entry["dtype"] = dtype

    edit_weights(folder, edit)
    if dtype == "F16":
        assert Package.open(folder).dtype == "F16"
    else:
        with pytest.raises(TensorError, match=r"expected BF16 .* found I16"):
            Package.open(folder)


def test_truncated_weights(tmp_path: Path) -> None:
    folder = broken(tmp_path)
    raw = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(raw[:-1])
    with pytest.raises(ContainerError, match=r"model\.safetensors"):
        Package.open(folder)


def test_lying_header(tmp_path: Path) -> None:
    """The header claims more rows than the bytes of the array hold."""
    folder = broken(tmp_path)
    edit_weights(folder, lambda weights: weights.entries[NORM].update(shape=[65]))
    with pytest.raises(ContainerError, match=NORM):
        Package.open(folder)


def test_broken_manifest(tmp_path: Path) -> None:
    folder = broken(tmp_path)
    (folder / "manifest.json").write_text("{}")
    with pytest.raises(SchemaError, match=r"manifest\.json"):
        Package.open(folder)


def not_a_package(path: Path) -> NotAPackage:
    with pytest.raises(NotAPackage, match=str(path)) as caught:
        Package.open(path)
    return caught.value


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert "does not exist" in not_a_package(tmp_path / "nothing").message


@pytest.mark.parametrize("name", ["config.json", WEIGHTS, "tokenizer.json"])
def test_a_folder_without_a_file(tmp_path: Path, name: str) -> None:
    folder = copy_package("llama", tmp_path)
    (folder / name).unlink()
    assert f"has no {name}" in not_a_package(folder).message


@pytest.mark.parametrize("case", ["llama", "qwen2"])
def test_a_checkpoint_is_told_from_a_package(case: str) -> None:
    """qwen2 comes in shards, so it has no model.safetensors at all."""
    folder = GOLDEN / case / "hf"
    assert not_a_package(folder).hint == f"masu convert {folder} makes a package of it"


def test_a_gguf_file(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    assert "masu convert" in (not_a_package(file).hint or "")


def test_a_speculator_has_no_tokenizer(tmp_path: Path) -> None:
    """It is judged by its config then, not refused for the missing file."""
    (tmp_path / "config.json").write_text('{"type": "SpeculatorModelConfig"}')
    (tmp_path / WEIGHTS).write_bytes(b"")
    with pytest.raises(SchemaError, match="speculator_config: missing"):
        Package.open(tmp_path)


# Packages of uzu 0.5, made by code that shares nothing with the dialect.


def as_uzu_0_5(folder: Path) -> Path:
    """Turns a golden package into what the release before would have written."""
    edit_config(folder, _old_config)
    edit_weights(folder, _old_weights)
    return folder


def _old_config(config: Any) -> None:
    del config["token_codec_config"]["reasoning_config"]
    for item in config["decoder_config"]["transformer_config"]["layer_configs"]:
        del item["mixer_conv_config"], item["mlp_conv_config"]
        names = {
            "qkvg_projection_config": "qkv_projection_config",
            "has_qkvg_biases": "has_qkv_biases",
            "has_gate": "gate_projection_config",
        }
        mixer = item["mixer_config"]
        item["mixer_config"] = {names.get(key, key): mixer[key] for key in mixer}
        item["mixer_config"]["gate_projection_config"] = None


def _old_weights(weights: Weights) -> None:
    for name in list(weights.entries):
        dtype, shape = weights.entries[name]["dtype"], weights.entries[name]["shape"]
        data = weights.data[name]
        if name.endswith((".scales", ".zero_points")) and ".weights." in name:
            shape, data = _row_major(data, dtype, shape)
        weights.drop(name)
        weights.put(name.replace("qkvg_projection", "qkv_projection"), dtype, shape, data)
    weights.metadata = {
        key.replace("qkvg_projection", "qkv_projection"): text
        for key, text in weights.metadata.items()
    }


def _row_major(data: bytes, dtype: str, shape: list[int]) -> tuple[list[int], bytes]:
    """A 4-bit asymmetric plane `[groups, rows]` as `[rows, groups]`, zero points packed again.

    None of these matrices has padded rows: their row counts are multiples of 4.
    """
    if dtype == "BF16":
        values = np.frombuffer(data, np.uint16).reshape(shape).T
        return list(values.shape), values.tobytes()
    packed = np.frombuffer(data, np.uint8).reshape(shape)
    codes = np.stack([packed & 15, packed >> 4], axis=-1).reshape(shape[0], -1).T
    packed = codes[:, 0::2] | codes[:, 1::2] << 4
    return list(packed.shape), packed.tobytes()


def decoded(package: Package) -> dict[str, np.ndarray]:
    """Every matrix of a package in float64, every other tensor as it is."""
    values = {}
    for name, entry in package.config.tensors():
        if not isinstance(entry, Matrix):
            values[name] = package.read(name)
            continue
        format_ = package.formats[name]
        suffixes = format_.arrays(entry.shape, package.dtype, package.planes)
        arrays = {suffix: package.read(f"{name}.{suffix}") for suffix in suffixes}
        values[name] = format_.decode(arrays, entry.shape, package.planes, np.float64)
    return values


@pytest.mark.parametrize("case", ["llama", "llama-int4-g32-asym"])
def test_twin_of_uzu_0_5(tmp_path: Path, case: str) -> None:
    twin = Package.open(as_uzu_0_5(copy_package(case, tmp_path)))
    original = Package.open(GOLDEN / case / "engine")
    assert (twin.dialect.name, twin.planes) == ("uzu-0.5", "row_major")
    assert (twin.config, twin.formats, twin.dtype) == (
        original.config, original.formats, original.dtype,
    )  # fmt: skip
    expected, found = decoded(original), decoded(twin)
    assert expected.keys() == found.keys()
    assert all(np.array_equal(expected[name], found[name]) for name in expected)


def test_missing_field_of_uzu_0_5_says_how_it_was_read(tmp_path: Path) -> None:
    folder = as_uzu_0_5(copy_package("llama", tmp_path))
    edit_config(folder, lambda config: layer(config)["mixer_config"].pop("scale"))
    with pytest.raises(SchemaError, match=r"read as uzu-0\.5") as caught:
        Package.open(folder)
    assert "mixer_config.scale: missing" in caught.value.problems[0]


@pytest.mark.parametrize("edits", [(_old_config, None), (None, _old_weights)])
def test_config_and_planes_of_different_ages(tmp_path: Path, edits: tuple[Any, Any]) -> None:
    """One file from each release; tensor names are made to fit, so that only planes differ."""
    folder = copy_package("llama-int4-g32-asym", tmp_path)
    of_config, of_weights = edits
    if of_config:
        edit_config(folder, of_config)
        edit_weights(folder, lambda weights: _rename(weights, "qkvg_projection", "qkv_projection"))
    else:
        edit_weights(folder, of_weights)
        edit_weights(folder, lambda weights: _rename(weights, "qkv_projection", "qkvg_projection"))
    with pytest.raises(TensorError) as caught:
        Package.open(folder)
    planes = [line for line in caught.value.problems if ".mlp." in line]
    assert len(planes) == 8  # two planes of each of four matrices
    assert all("written by another release than config.json" in line for line in planes)


def _rename(weights: Weights, old: str, new: str) -> None:
    for name in list(weights.entries):
        entry, data = weights.entries[name], weights.data[name]
        weights.drop(name)
        weights.put(name.replace(old, new), entry["dtype"], entry["shape"], data)
    weights.metadata = {key.replace(old, new): text for key, text in weights.metadata.items()}


def test_a_gate_of_uzu_0_5_is_a_matrix_of_its_own(tmp_path: Path) -> None:
    """`test_migration` has packages in which it stands there."""
    folder = as_uzu_0_5(copy_package("llama", tmp_path))
    gate: dict[str, Any] = {"gate_projection_config": {}}
    edit_config(folder, lambda config: layer(config)["mixer_config"].update(gate))
    with pytest.raises(SchemaError) as caught:
        Package.open(folder)
    assert caught.value.problems == (
        "decoder.transformer.layers.0.mixer.gate_projection.weights.spec: missing; every matrix"
        " has exactly one",
    )
