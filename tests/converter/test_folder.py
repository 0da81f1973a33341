"""Local Hugging Face folders: what opens, and each way of not being exactly one checkpoint."""

import hashlib
import json
import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from golden import GOLDEN
from tiny_checkpoints import CONFIG, SHARDS, holds, same, sharded, single, tensors, write

from masu.converter.checkpoint import Checkpoint
from masu.converter.provenance import manifest_source
from masu.converter.sources.folder import open_folder
from masu.specs.errors import ConfigError, SourceError, SourceNotFound

GOLDEN_FOLDERS = sorted(path.parent for path in GOLDEN.glob("*/hf/config.json"))
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1234\n"


def refused(folder: Path, error: type[SourceError] = SourceError) -> str:
    """The whole message of the refusal."""
    with pytest.raises(error) as caught:
        open_folder(folder)
    return str(caught.value)


def test_golden_folders_are_found() -> None:
    assert len(GOLDEN_FOLDERS) > 40


@pytest.mark.parametrize("folder", GOLDEN_FOLDERS, ids=lambda path: path.parent.name)
def test_every_golden_folder_opens_with_the_values_that_safetensors_reads(folder: Path) -> None:
    checkpoint = open_folder(folder)
    expected = {}
    for path in folder.glob("*.safetensors"):
        expected |= safetensors.numpy.load_file(path)
    assert checkpoint.config == json.loads((folder / "config.json").read_bytes())
    assert holds(checkpoint, expected)
    for name, tensor in checkpoint.tensors.items():
        assert (tensor.name, tensor.shape) == (name, expected[name].shape)


def test_shards_come_under_their_names_and_lie_where_raw_says(tmp_path: Path) -> None:
    folder = write(tmp_path, sharded())
    checkpoint = open_folder(folder)
    assert set(checkpoint.tensors) == set(tensors())
    for name, expected in tensors().items():
        tensor = checkpoint.tensors[name]
        assert tensor.raw is not None
        data = tensor.raw.path.read_bytes()[tensor.raw.offset :][: tensor.raw.length]
        assert data == expected.tobytes()
        assert tensor.raw.path.name == tensor.location
    assert checkpoint.tensors["embed.weight"].location == SHARDS[0]
    assert checkpoint.tensors["norm.weight"].location == SHARDS[1]


def test_reads_are_rows_of_the_first_axis(tmp_path: Path) -> None:
    checkpoint = open_folder(write(tmp_path, single()))
    assert same(checkpoint.tensors["embed.weight"].read(2, 5), tensors()["embed.weight"][2:5])
    assert same(checkpoint.tensors["scale"].read(0, 1), tensors()["scale"])


def test_quantised_types_are_given_as_they_are(tmp_path: Path) -> None:
    arrays = {
        "codes": np.arange(8, dtype=np.uint8).reshape(2, 4),
        "signed": np.arange(-4, 4, dtype=np.int8).reshape(2, 4),
        "words": np.arange(4, dtype=np.uint32),
    }
    eights = np.arange(4, dtype=np.uint8)
    header = safetensors.numpy.save({**arrays, "eights": eights})
    # The library has no numpy type for F8: relabel bytes that are the same either way.
    files = {**single(), "model.safetensors": _relabel(header, "eights", "F8_E4M3")}
    checkpoint = open_folder(write(tmp_path, files))
    for name, expected in arrays.items():
        assert same(checkpoint.tensors[name].read(0, len(expected)), expected)
    found = checkpoint.tensors["eights"]
    assert found.dtype == "F8_E4M3"
    assert same(found.read(0, 4), eights.view(ml_dtypes.float8_e4m3fn))


def _relabel(data: bytes, name: str, dtype: str) -> bytes:
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header[name]["dtype"] = dtype
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def test_texts_are_the_bytes_of_the_files(tmp_path: Path) -> None:
    texts = {
        name: f"{{}} {name}".encode()
        for name in (
            "tokenizer.json",
            "tokenizer_config.json",
            "generation_config.json",
            "chat_template.jinja",
            "chat_template.json",
            "special_tokens_map.json",
            "added_tokens.json",
        )
    }
    assert open_folder(write(tmp_path, {**single(), **texts})).texts == texts


def test_every_other_file_is_named_with_a_reason(tmp_path: Path) -> None:
    others = {
        "README.md": "documentation",
        "LICENSE": "licence",
        "pytorch_model.bin": "pickle",
        "model.onnx": "another format",
        "model-q4.gguf": "another format",
        "modeling_llama.py": "never run",
        "consolidated.safetensors": "another form",
        "model.fp16.safetensors": "another form",
        "original/consolidated.00.pth": "own format",
        "merges.txt": "tokenizer.json",
        "mystery.dat": "not read by the conversion",
    }
    folder = write(tmp_path, {**single(), **dict.fromkeys(others, b"x")})
    inert = open_folder(folder).inert_files
    assert set(inert) == {
        name.replace("original/consolidated.00.pth", "original/") for name in others
    }
    for name, reason in others.items():
        assert reason in inert[name.partition("consolidated.00")[0] if "/" in name else name]


def test_no_file_is_both_used_and_inert(tmp_path: Path) -> None:
    assert open_folder(write(tmp_path, sharded())).inert_files == {}


def test_identity_is_the_bytes_of_the_small_files(tmp_path: Path) -> None:
    first = open_folder(write(tmp_path / "here" / "model", single()))
    second = open_folder(write(tmp_path / "there" / "model", single()))
    changed = open_folder(write(tmp_path / "model", {**single(), "tokenizer.json": b"{}"}))
    source = manifest_source(first)
    assert (source.kind, source.name, source.revision) == ("folder", None, None)
    assert source.files["config.json"] == hashlib.sha256(single()["config.json"]).hexdigest()
    assert set(source.files) == {"config.json", "tokenizer.json", "tokenizer_config.json"}
    assert manifest_source(second) == source
    assert manifest_source(changed) != source


def test_a_relative_folder_has_its_real_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write(tmp_path / "model", single()))
    assert open_folder(Path()).name == "model"


# --- config.json


def test_infinities_of_transformers_4_read_like_those_of_transformers_5(tmp_path: Path) -> None:
    older = b'{"limit": [0.0, Infinity], "low": -Infinity, "odd": NaN, "word": "-Infinity \\" NaN"}'
    newer = {
        "limit": [0.0, {"__float__": "Infinity"}],
        "low": {"__float__": "-Infinity"},
        "odd": {"__float__": "NaN"},
        "word": '-Infinity " NaN',
    }
    assert _config(tmp_path, older).config == newer
    assert _config(tmp_path, json.dumps(newer).encode()).config == newer


def _config(folder: Path, data: bytes) -> Checkpoint:
    return open_folder(write(folder, {**single(), "config.json": data}))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"a": 1', "not valid JSON"),
        (b"[1]", "expected an object, found list"),
        (b'{"a": 1, "a": 2}', "'a' 2 times"),
        (b'{"a": Infinite}', "not valid JSON"),
        (b'"' + b'\\"' * 500_000, "not valid JSON"),
    ],
)
def test_malformed_config_is_refused(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _config(tmp_path, data)
    assert says in str(caught.value)
    assert "config.json" in str(caught.value)


def test_a_folder_without_config_is_no_checkpoint(tmp_path: Path) -> None:
    files = single()
    del files["config.json"]
    assert "config.json" in refused(write(tmp_path, files), SourceNotFound)
    write(tmp_path, {"config.json": json.dumps(CONFIG).encode()})
    assert open_folder(tmp_path).config == CONFIG


def test_a_path_that_is_no_folder(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "nothing", SourceNotFound)
    assert "is a file" in refused(write(tmp_path, single()) / "config.json", SourceNotFound)


# --- files that are not what their names say


def test_every_broken_shard_is_named(tmp_path: Path) -> None:
    one, two = SHARDS
    folder = write(tmp_path, {**sharded(), one: POINTER, two: sharded()[two][:-1]})
    message = refused(folder)
    assert one in message
    assert "pointer" in message
    assert two in message
    assert "truncated" in message
    assert set(open_folder(write(folder, sharded())).tensors) == set(tensors())


def test_pointers_in_the_place_of_text_files_are_named_together(tmp_path: Path) -> None:
    texts = {"tokenizer.json": POINTER, "tokenizer_config.json": POINTER}
    message = refused(write(tmp_path, {**single(), **texts}))
    assert "tokenizer.json is a Git LFS pointer" in message
    assert "tokenizer_config.json is a Git LFS pointer" in message
    assert "git lfs pull" in message


@pytest.mark.parametrize("name", ["tokenizer_config.json", "chat_template.jinja"])
def test_text_files_have_a_size_limit(tmp_path: Path, name: str) -> None:
    folder = write(tmp_path, {**single(), name: b" " * (4 * 2**20 + 1)})
    assert f"{name} is larger than" in refused(folder)
    write(folder, {name: b" " * (4 * 2**20)})
    assert len(open_folder(folder).texts[name]) == 4 * 2**20


def test_a_file_without_tensors_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, {**single(), "model.safetensors": safetensors.numpy.save({})})
    assert "no tensors" in refused(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "model.safetensors"])
def test_a_link_to_nothing_is_a_missing_file(tmp_path: Path, name: str) -> None:
    folder = write(tmp_path, single())
    target = (folder / name).rename(folder / f"moved-{name}.txt")
    (folder / name).symlink_to(target)
    assert set(open_folder(folder).tensors) == set(tensors())
    target.unlink()
    message = refused(folder)
    assert f"{name}: missing" in message


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path, name: str) -> None:
    folder = write(tmp_path / "folder", single())
    target = (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(target)
    assert f"{name}: a link that leads out of the folder" in refused(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_link_into_the_blobs_of_a_cache_is_followed(tmp_path: Path, name: str) -> None:
    folder = write(tmp_path / "snapshots" / "0123", single())
    (tmp_path / "blobs").mkdir()
    (folder / name).rename(tmp_path / "blobs" / "ab")
    (folder / name).symlink_to("../../blobs/ab")
    assert set(open_folder(folder).tensors) == set(tensors())


def test_a_link_to_nothing_that_nobody_needs_is_inert(tmp_path: Path) -> None:
    folder = write(tmp_path, single())
    (folder / "README.md").symlink_to(tmp_path / "nowhere")
    assert "nowhere" in open_folder(folder).inert_files["README.md"]


def test_a_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path) -> None:
    folder = write(tmp_path, single())
    (folder / "tokenizer.json").unlink()
    os.mkfifo(folder / "tokenizer.json")
    assert "tokenizer.json: not a regular file" in refused(folder)


def test_a_file_cut_short_after_opening_is_an_error_of_the_source(tmp_path: Path) -> None:
    folder = write(tmp_path, single())
    tensor = open_folder(folder).tensors["embed.weight"]
    assert tensor.read(0, 6).shape == (6, 4)
    os.truncate(folder / "model.safetensors", 100)
    with pytest.raises(SourceError, match="cut short"):
        tensor.read(0, 6)


def test_names_that_are_no_text_can_still_be_printed(tmp_path: Path) -> None:
    folder = write(tmp_path, single())
    (folder / os.fsdecode(b"odd-\xff.txt")).write_bytes(b"")
    assert open_folder(folder).inert_files == {"odd-\\xff.txt": "documentation"}
