"""`masu diff`: nothing for a package and itself, and every difference with its place and size."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_cases import (
    INPUT,
    LOW_RANK,
    MIXTURE,
    QKV,
    UP,
    Made,
    Values,
    hybrid,
    int4,
    kept,
    made,
    mlx,
    on_codec,
    on_generation,
    on_mixer,
    on_mlp,
)
from golden import GOLDEN
from package_copies import Weights, add_manifest, copy_package, edit_config, edit_weights
from written_packages import write_package

import masu
from masu.comparison.distance import distance
from masu.comparison.entries import Entry
from masu.comparison.rows import MatrixRows
from masu.specs.errors import NotAPackage
from masu.specs.package import Package
from masu.specs.tensors import Matrix


def entries(a: Path, b: Path) -> dict[str, Entry]:
    return {entry.place: entry for entry in masu.diff(a, b).entries}


def written(folder: Path, package: Made, **options: Any) -> Path:
    return write_package(folder, package.candidate(), **options)


@pytest.mark.parametrize("case", ["llama-int4-g32-asym", "qwen3_5", "modernbert"])
def test_a_package_and_itself(case: str, tmp_path: Path) -> None:
    copy = copy_package(case, tmp_path)
    assert masu.diff(copy, copy).is_empty
    assert masu.diff(GOLDEN / case / "engine", copy).is_empty


def test_two_recipes_of_one_model(tmp_path: Path) -> None:
    found = entries(GOLDEN / "llama/engine", GOLDEN / "llama-int4-g32-asym/engine")
    up = found[UP]
    assert up.message.startswith("FullPrecision BF16 [256, 64] in A, Int (bits 4, group_size 32")
    assert up.distance is not None
    assert up.distance.relative is not None
    assert 0.02 < up.distance.relative < 0.2  # 4 bits: 2 ** -4 of the range, roughly
    assert {entry.section for entry in found.values()} == {"tensors"}


FORMATS: list[tuple[str, Values]] = [
    (UP, int4(is_symmetric=False)),
    (UP, int4(bits=8, is_symmetric=False)),
    (UP, mlx()),
    (UP, hybrid()),
    (UP, hybrid(adapter_spec=LOW_RANK)),
    (INPUT, int4(layout="input_output")),
]


@pytest.mark.parametrize(("path", "spec"), FORMATS)
@pytest.mark.parametrize("dialect", ["uzu-0.6", "uzu-0.5"])
def test_rows_in_chunks_are_the_whole_matrix(
    path: str, spec: Values, dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the last chunk is odd, and where planes are transposed and padded."""

    def odd(values: Values) -> None:
        values["decoder_config"]["transformer_config"]["hidden_dim"] = 416
        values["decoder_config"]["vocab_size"] = 391

    monkeypatch.setattr("masu.comparison.rows.CHUNK_VALUES", 1)  # chunks of one block
    package = Package.open(written(tmp_path / "new", kept(path, spec, odd)))
    if dialect == "uzu-0.5":
        masu.migrate(package.path, tmp_path / "old", engine=dialect)
        package = Package.open(tmp_path / "old")
    entry = dict(package.config.tensors())[path]
    assert isinstance(entry, Matrix)
    chunks = list(MatrixRows(package, path, entry).chunks())
    assert len(chunks) > 2
    suffixes = package.formats[path].arrays(entry.shape, "BF16", package.planes)
    arrays = {suffix: package.read(f"{path}.{suffix}") for suffix in suffixes}
    whole = package.formats[path].decode(arrays, entry.shape, package.planes, np.float32)
    assert np.array_equal(np.concatenate(chunks), whole)


def test_experts_come_one_by_one(tmp_path: Path) -> None:
    name = UP.replace("up_projection", "experts.up_projection")
    package = Package.open(written(tmp_path / "p", kept(name, int4(), on_mlp(MIXTURE))))
    entry = dict(package.config.tensors())[name]
    assert isinstance(entry, Matrix)
    chunks = list(MatrixRows(package, name, entry).chunks())
    assert [chunk.shape for chunk in chunks] == [(1, *entry.shape[1:])] * 4
    suffixes = package.formats[name].arrays(entry.shape, "BF16", package.planes)
    arrays = {suffix: package.read(f"{name}.{suffix}") for suffix in suffixes}
    whole = package.formats[name].decode(arrays, entry.shape, package.planes, np.float32)
    assert np.array_equal(np.concatenate(chunks), whole)


def test_releases_differ_in_spelling_only(tmp_path: Path) -> None:
    new = written(tmp_path / "new", kept(QKV, int4(is_symmetric=False), on_mixer(has_gate=True)))
    masu.migrate(new, tmp_path / "old", engine="uzu-0.5")
    assert entries(new, tmp_path / "old").keys() == {"dialect", "engine"}


def changed(tmp_path: Path, edit: Callable[[Weights], None]) -> dict[str, Entry]:
    copy = copy_package("llama", tmp_path)
    edit_weights(copy, edit)
    return entries(GOLDEN / "llama/engine", copy)


NORM = "decoder.transformer.output_norm.scales"


def test_one_value_of_one_tensor(tmp_path: Path) -> None:
    """Known sizes: one element of many is moved by a known step."""
    original = Weights.load(GOLDEN / "llama/engine")
    scales = np.frombuffer(original.data[NORM], np.float32)

    def edit(weights: Weights) -> None:
        moved = scales.copy()
        moved[3] += 0.25
        weights.data[NORM] = moved.tobytes()

    found = changed(tmp_path, edit)
    assert found.keys() == {NORM}
    step = np.float32(scales[3] + np.float32(0.25)) - scales[3]
    distance = found[NORM].distance
    assert distance is not None
    assert distance.largest == pytest.approx(step, rel=1e-6)
    assert distance.relative == pytest.approx(
        step / np.linalg.norm(scales.astype(np.float64)), rel=1e-6
    )


def test_a_flipped_zero_is_told(tmp_path: Path) -> None:
    """Bytes differ and no value does: -0 for 0."""

    def zeros(sign: float) -> Callable[[Weights], None]:
        def edit(weights: Weights) -> None:
            count = len(weights.data[NORM]) // 4
            weights.data[NORM] = np.full(count, sign * 0.0, np.float32).tobytes()

        return edit

    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    a, b = copy_package("llama", tmp_path / "a"), copy_package("llama", tmp_path / "b")
    edit_weights(a, zeros(1.0))
    edit_weights(b, zeros(-1.0))
    assert "other bytes for the same values" in entries(a, b)[NORM].message


def test_equal_hashes_prove_nothing(tmp_path: Path) -> None:
    """Both manifests say the same of two files of which one was tampered with."""
    a = copy_package("llama", tmp_path)
    add_manifest(a)
    b = tmp_path / "b"
    shutil.copytree(a, b)
    name = "decoder.transformer.layers.1.mlp.down_projection.weights"

    def edit(weights: Weights) -> None:
        stored = f"{name}.weights"
        weights.data[stored] = weights.data[stored][:-1] + b"\x41"

    edit_weights(b, edit)
    assert entries(a, b).keys() == {name}


def test_values_that_are_not_finite() -> None:
    nan, inf = float("nan"), float("inf")
    a, b = np.array([1.0, nan, inf, 2.0]), np.array([1.0, nan, -inf, nan])
    found = distance([a], [b])
    assert (found.relative, found.largest, found.unlike) == (0.0, 0.0, 2)
    assert distance([np.zeros(2)], [np.ones(2)]).relative is None


def test_config_generation_template_and_layers(tmp_path: Path) -> None:
    a = written(tmp_path / "a", made(on_codec(prompt_template="one\ntwo\n")))
    second = made(
        on_codec(prompt_template="one\n2\n", eos_token="a"),
        on_generation(temperature=0.7),
        on_mixer(sliding_window_size=16),
    )
    found = entries(a, written(tmp_path / "b", second))
    layer = "decoder_config.transformer_config.layer_configs[0].mixer_config.sliding_window_size"
    assert {place: (entry.section, entry.message) for place, entry in found.items()} == {
        "token_codec_config.eos_token": ("config", 'null in A, "a" in B'),
        layer: ("config", "null in A, 16 in B"),
        "generation_config.temperature": ("generation", "null in A, 0.7 in B"),
        "token_codec_config.prompt_template": (
            "template", "1 lines of A, 1 of B\n- two\\n\n+ 2\\n",
        ),
    }  # fmt: skip


def test_tensors_of_one_side_and_of_other_shapes(tmp_path: Path) -> None:
    a = written(tmp_path / "a", made())
    b = written(tmp_path / "b", made(on_mixer(num_heads=4, has_sinks=True)))
    found = entries(a, b)
    mixer = QKV.removesuffix(".qkvg_projection.weights")
    assert found[f"{mixer}.sinks"].message == "only in B: BF16 [4]"
    assert (
        found[QKV].message
        == "FullPrecision BF16 [256, 128] in A, FullPrecision BF16 [384, 128] in B"
    )
    assert found[QKV].distance is None


def edit_tokenizer(folder: Path, edit: Callable[[Any], None]) -> None:
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    edit(tokenizer)
    path.write_text(json.dumps(tokenizer))


def drop_a_merge(tokenizer: Any) -> None:
    tokenizer["model"]["merges"].pop()


def swap_two_ids(tokenizer: Any) -> None:
    vocab = tokenizer["model"]["vocab"]
    a, b = list(vocab)[5:7]
    vocab[a], vocab[b] = vocab[b], vocab[a]


def make_ordinary(tokenizer: Any) -> None:
    tokenizer["added_tokens"][0]["special"] = not tokenizer["added_tokens"][0]["special"]


def normalise(tokenizer: Any) -> None:
    tokenizer["normalizer"] = {"type": "NFC"}


@pytest.mark.parametrize(
    ("edit", "place", "message"),
    [
        (drop_a_merge, "merges", "differ from item"),
        (swap_two_ids, "vocab", "have other ids"),
        (make_ordinary, "added_tokens", "in A, "),
        (normalise, "normalizer", '{"type": "NFC"} in B'),
        (lambda tokenizer: None, "tokenizer.json", "the same content, written differently"),
    ],
)
def test_tokenizers(edit: Callable[[Any], None], place: str, message: str, tmp_path: Path) -> None:
    copy = copy_package("llama", tmp_path)
    edit_tokenizer(copy, edit)
    [(found, entry)] = entries(GOLDEN / "llama/engine", copy).items()
    assert found.startswith(place)
    assert entry.section == "tokenizer"
    assert message in entry.message


def test_manifests(tmp_path: Path) -> None:
    a = copy_package("llama", tmp_path)
    b = tmp_path / "b"
    shutil.copytree(a, b)
    add_manifest(b, masu_version="0.2.0")
    assert entries(a, b)["manifest.json"].message == "only in B"
    add_manifest(a)
    assert entries(a, b)["masu_version"].message == '"0.1.0" in A, "0.2.0" in B'


def test_what_is_no_package(tmp_path: Path) -> None:
    with pytest.raises(NotAPackage):
        masu.diff(GOLDEN / "llama/engine", tmp_path)


def test_numbers_of_two_kinds_are_two_values(tmp_path: Path) -> None:
    copy = copy_package("llama", tmp_path)
    edit_config(copy, lambda config: config["generation_config"].update(temperature=0.5))
    assert entries(GOLDEN / "llama/engine", copy).keys() == {"generation_config.temperature"}
