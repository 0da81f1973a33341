"""Which files hold the weights of a folder: the index is the truth, or there is only one file."""

from pathlib import Path

import pytest
from tiny_checkpoints import INDEX, SHARDS, index, sharded, single, tensors, with_index, write

from masu.converter.sources.folder import open_folder
from masu.specs.errors import SourceError


def refused(folder: Path) -> str:
    """The whole message of the refusal."""
    with pytest.raises(SourceError) as caught:
        open_folder(folder)
    return str(caught.value)


def test_every_disagreement_with_the_index_is_in_one_message(tmp_path: Path) -> None:
    one, two = SHARDS
    names = list(tensors())
    files = {**sharded(), **with_index({one: names[:3], two: names[2:]})}
    placed = {
        "embed.weight": two,  # it is in the first
        "layers.0.weight": one,
        # norm.weight: in both, and not named
        "scale": two,
        "ghost": one,  # in neither
        "lost": "model-00003-of-00003.safetensors",  # no such shard
    }
    stray = "model-00007-of-00009.safetensors"
    folder = write(tmp_path, {**files, INDEX: index(placed), stray: files[one]})
    message = refused(folder)
    for problem in (
        "model-00003-of-00003.safetensors: missing; the index places 1 tensors there",
        f"{stray}: not in the index",
        f"embed.weight: the index places it in {two}, but it is in {one}",
        f"ghost: the index places it in {one}, but it is in no shard",
        f"norm.weight: in {one} and {two}, but not in the index",
    ):
        assert problem in message
    assert "scale" not in message
    assert "layers.0.weight" not in message


def test_a_tensor_in_two_shards_is_refused_though_the_index_names_one(tmp_path: Path) -> None:
    one, two = SHARDS
    names = list(tensors())
    files = with_index({one: names[:3], two: names[2:]})
    message = refused(write(tmp_path, {**sharded(), **files}))
    assert f"norm.weight: in {one} and {two}; the index places it in {two} alone" in message
    assert set(open_folder(write(tmp_path, sharded())).tensors) == set(names)


@pytest.mark.parametrize("stray", ["model-00003-of-00003.safetensors", "model.safetensors"])
def test_weights_beside_the_index_that_it_does_not_name(tmp_path: Path, stray: str) -> None:
    folder = write(tmp_path, {**sharded(), stray: single()["model.safetensors"]})
    assert f"{stray}: not in the index" in refused(folder)
    (folder / stray).rename(folder / "extra.safetensors")
    assert open_folder(folder).inert_files == {"extra.safetensors": "not in the shard index"}


def test_an_index_may_name_a_single_file(tmp_path: Path) -> None:
    files = {**single(), **with_index({"model.safetensors": list(tensors())})}
    assert set(open_folder(write(tmp_path, files)).tensors) == set(tensors())


@pytest.mark.parametrize(
    "shard",
    [
        "../model.safetensors",
        "/etc/model.safetensors",
        "sub/model.safetensors",
        "..\\model.safetensors",
        "model.bin",
        "..",
        "",
        7,
        None,
        ["model.safetensors"],
    ],
)
def test_shard_names_that_lead_elsewhere_are_refused(tmp_path: Path, shard: object) -> None:
    write(tmp_path, {"model.safetensors": single()["model.safetensors"]})  # where ../ leads
    placed = {**dict.fromkeys(tensors(), "model.safetensors"), "norm.weight": shard}
    folder = write(tmp_path / "folder", {**single(), INDEX: index(placed)})
    assert repr(shard) in refused(folder)
    write(folder, {INDEX: index({**placed, "norm.weight": "model.safetensors"})})
    assert open_folder(folder).tensors["norm.weight"].shape == (4,)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"{}", "no weight_map"),
        (index({}), "no weight_map"),
        (index([]), "no weight_map"),
        (b"[]", "no weight_map"),
        (b'{"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}}', "'a' 2 times"),
    ],
)
def test_a_malformed_index_is_refused(tmp_path: Path, data: bytes, says: str) -> None:
    message = refused(write(tmp_path, {**sharded(), INDEX: data}))
    assert says in message
    assert INDEX in message


# --- without an index


def test_one_weight_file_may_have_any_name(tmp_path: Path) -> None:
    files = single()
    files["weights.safetensors"] = files.pop("model.safetensors")
    assert set(open_folder(write(tmp_path, files)).tensors) == set(tensors())


def test_several_weight_files_need_an_index(tmp_path: Path) -> None:
    weights = single()["model.safetensors"]
    folder = write(tmp_path, {**single(), "other.safetensors": weights})
    message = refused(folder)
    assert "other.safetensors" in message
    assert "hint:" in message
    (folder / "other.safetensors").rename(folder / "consolidated.safetensors")
    assert "consolidated.safetensors" in open_folder(folder).inert_files


@pytest.mark.parametrize("shard", SHARDS)
def test_a_shard_without_index_is_not_taken_for_the_whole(tmp_path: Path, shard: str) -> None:
    files = single()
    weights = files.pop("model.safetensors")
    folder = write(tmp_path, {**files, shard: weights})
    assert f"{INDEX} is missing" in refused(folder)
    (folder / shard).rename(folder / "model-00001-of-00001.safetensors")
    assert set(open_folder(folder).tensors) == set(tensors())


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("pytorch_model.bin", "pickles"),
        ("consolidated.00.pth", "pickles"),
        ("model.pt", "pickles"),
        ("consolidated.safetensors", "own layout"),
        ("model-q4_k_m.gguf", "GGUF"),
        ("README.md", "no weights"),
    ],
)
def test_a_folder_without_readable_weights(tmp_path: Path, name: str, says: str) -> None:
    files = single()
    weights = files.pop("model.safetensors")
    folder = write(tmp_path, {**files, name: b"\x80\x04 never read"})
    message = refused(folder)
    assert says in message
    write(folder, {"model.safetensors": weights})
    assert name in open_folder(folder).inert_files


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors"])
@pytest.mark.parametrize("files", [single(), sharded()], ids=["single", "sharded"])
def test_an_adapter_beside_the_weights_is_refused(
    tmp_path: Path, files: dict[str, bytes], name: str
) -> None:
    folder = write(tmp_path, {**files, name: b"{}"})
    assert name in refused(folder)
    (folder / name).unlink()
    assert set(open_folder(folder).tensors) == set(tensors())
