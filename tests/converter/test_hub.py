"""Hub repositories against a local stand-in: one commit, needed files only, clear refusals."""

import re
import shutil
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import safetensors.numpy
from golden import GOLDEN
from hub_server import TOKEN, HubServer, Request
from huggingface_hub import constants
from tiny_checkpoints import CONFIG, INDEX, SHARDS, holds, index, sharded, single, tensors

from masu.converter.checkpoint import Checkpoint
from masu.converter.provenance import manifest_source
from masu.converter.sources.folder import open_folder
from masu.converter.sources.hub import open_hub
from masu.specs.errors import ConfigError, SourceError, SourceNotFound, UnknownFamily
from masu.specs.manifest import Source

REPO = "org/model"
WEIGHTS = {*SHARDS, "model.safetensors"}
OTHERS = {"README.md": b"# model", "pytorch_model.bin": b"\x80\x04", "onnx/model.onnx": b"x"}

Open = Callable[..., Checkpoint]


@pytest.fixture
def open_(hub: HubServer, tmp_path: Path) -> Open:
    """`open_hub` on the stand-in, with a cache of the test's own."""

    def open_there(repo: str = REPO, **options: Any) -> Checkpoint:
        return open_hub(repo, cache_dir=tmp_path / "cache", endpoint=hub.endpoint, **options)

    return open_there


def test_the_golden_shards_arrive_whole(hub: HubServer, open_: Open) -> None:
    folder = GOLDEN / "qwen2" / "hf"
    commit = hub.add(REPO, {path.name: path.read_bytes() for path in folder.iterdir()})
    checkpoint, local = open_(), open_folder(folder)
    expected = {}
    for path in folder.glob("*.safetensors"):
        expected |= safetensors.numpy.load_file(path)
    assert holds(checkpoint, expected)
    assert checkpoint.config == local.config
    assert checkpoint.texts == local.texts
    assert checkpoint.inert_files == local.inert_files
    assert checkpoint.name == REPO
    assert manifest_source(checkpoint) == Source(
        kind="hub", name=REPO, revision=commit, files=local.identity["files"]
    )


def test_only_what_is_needed_is_fetched_config_first(hub: HubServer, open_: Open) -> None:
    hub.add(REPO, {**OTHERS, **sharded()})
    checkpoint = open_()
    fetched = hub.fetched()
    assert sorted(fetched) == sorted(sharded())
    assert fetched[0] == "config.json"
    assert fetched[1] == INDEX
    assert set(checkpoint.inert_files) == {"README.md", "pytorch_model.bin", "onnx/"}


def test_messages_name_the_commit_and_the_bytes_to_fetch(hub: HubServer, open_: Open) -> None:
    commit = hub.add(REPO, single())
    first: list[str] = []
    again: list[str] = []
    open_(on_message=first.append)
    open_(on_message=again.append)
    assert first[0] == f"{REPO}@main is commit {commit}"
    assert f"{len(single()['model.safetensors']):,} bytes" in first[1]
    assert again == first[:1]


def test_nothing_is_written_where_no_terminal_shows_it(
    hub: HubServer, open_: Open, capfd: pytest.CaptureFixture[str]
) -> None:
    hub.add(REPO, sharded())
    assert holds(open_(), tensors())
    assert capfd.readouterr() == ("", "")


# --- revisions


def test_a_branch_a_tag_or_a_commit_can_be_named(hub: HubServer, open_: Open) -> None:
    old = hub.add(REPO, single(seed=1))
    hub.repositories[REPO].refs["v1.0"] = old
    hub.repositories[REPO].refs["refs/pr/1"] = old
    new = hub.repositories[REPO].commit(single(seed=2))
    for revision in ("v1.0", "refs/pr/1", old):
        checkpoint = open_(revision=revision)
        assert checkpoint.identity["revision"] == old
        assert holds(checkpoint, tensors(seed=1))
    assert open_().identity["revision"] == new
    assert holds(open_(revision="main"), tensors(seed=2))


@pytest.mark.parametrize("moves_at", ["config.json", INDEX, SHARDS[0]])
def test_a_branch_that_moves_meanwhile_mixes_nothing(
    hub: HubServer, open_: Open, moves_at: str
) -> None:
    old = hub.add(REPO, sharded(seed=1))

    def move(request: Request) -> None:
        if request.path.endswith(f"/{moves_at}"):
            hub.repositories[REPO].commit({**sharded(seed=2), "config.json": b'{"new": 1}'})

    hub.on_request = move
    checkpoint = open_()
    assert hub.repositories[REPO].refs["main"] != old
    assert checkpoint.identity["revision"] == old
    assert checkpoint.config == CONFIG
    assert holds(checkpoint, tensors(seed=1))
    assert holds(open_(), tensors(seed=2))


def test_commits_share_a_cache_without_mixing(hub: HubServer, open_: Open) -> None:
    old = hub.add(REPO, sharded(seed=1))
    assert holds(open_(), tensors(seed=1))
    # The second commit has another set of files, so that a stray shard would show.
    new = hub.repositories[REPO].commit(single(seed=2))
    assert holds(open_(), tensors(seed=2))
    assert holds(open_(revision=old), tensors(seed=1))
    assert holds(open_(revision=new, offline=True), tensors(seed=2))


@pytest.mark.parametrize("revision", ["nightly", "f" * 40])
def test_a_missing_revision(hub: HubServer, open_: Open, revision: str) -> None:
    hub.add(REPO, single())
    with pytest.raises(SourceNotFound, match=f"no revision '{revision}'"):
        open_(revision=revision)
    assert open_(revision="main").config == CONFIG


@pytest.mark.parametrize("revision", ["../../main", "/main", "a b", "main\n", ""])
@pytest.mark.parametrize("offline", [False, True])
def test_a_revision_that_is_no_name(
    hub: HubServer, open_: Open, revision: str, offline: bool
) -> None:
    hub.add(REPO, single())
    if revision:
        with pytest.raises(SourceNotFound, match="no name of a branch"):
            open_(revision=revision, offline=offline)
        assert hub.requests == []
    else:
        assert open_(revision=revision).identity["revision"] in hub.repositories[REPO].commits


# --- the config decides before any weight


@pytest.mark.parametrize("files", [single(), sharded()], ids=["single", "sharded"])
def test_what_the_config_check_refuses_is_not_downloaded(
    hub: HubServer, open_: Open, files: dict[str, bytes]
) -> None:
    hub.add(REPO, files)

    def refuse(config: Mapping[str, Any]) -> None:
        raise UnknownFamily(f"no family reads {config['model_type']}")

    with pytest.raises(UnknownFamily, match="no family reads llama"):
        open_(accept=refuse)
    assert hub.fetched() == ["config.json"]
    seen: list[Mapping[str, Any]] = []
    open_(accept=seen.append)
    assert seen == [CONFIG]
    assert sorted(hub.fetched()) == sorted(files)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({SHARDS[1]: None}, f"{SHARDS[1]}: missing"),
        ({"model-00009-of-00009.safetensors": b"x"}, "not in the index"),
        ({INDEX: index({"a": "../../model.safetensors"})}, "own folder"),
        ({INDEX: index([])}, "no weight_map"),
        ({INDEX: None}, f"{INDEX} is missing"),
        ({"adapter_config.json": b"{}"}, "an adapter"),
        ({"tokenizer_config.json": b" " * (4 * 2**20 + 1)}, "too large"),
    ],
)
def test_what_the_names_show_to_be_wrong_is_refused_before_the_weights(
    hub: HubServer, open_: Open, change: dict[str, bytes | None], says: str
) -> None:
    files = sharded() | change
    hub.add(REPO, {name: data for name, data in files.items() if data is not None})
    with pytest.raises(SourceError, match=re.escape(says)):
        open_()
    assert not WEIGHTS & set(hub.fetched())
    assert "tokenizer_config.json" not in hub.fetched()
    hub.repositories[REPO].commit(sharded())
    assert holds(open_(), tensors())


def test_a_repository_without_config(hub: HubServer, open_: Open) -> None:
    hub.add(REPO, {"model-q4.gguf": b"GGUF", "README.md": b""})
    with pytest.raises(SourceNotFound, match=re.escape("config.json")) as caught:
        open_()
    assert "model-q4.gguf" in str(caught.value)
    hub.repositories[REPO].commit(single())
    assert open_().config == CONFIG


def test_a_malformed_config_is_named_by_its_repository(hub: HubServer, open_: Open) -> None:
    hub.add(REPO, {**single(), "config.json": b"{"})
    with pytest.raises(ConfigError, match=f"{REPO}/config.json is not valid JSON"):
        open_()


# --- the cache


def test_a_second_run_fetches_nothing(hub: HubServer, open_: Open) -> None:
    hub.add(REPO, sharded())
    open_()
    hub.requests.clear()
    assert holds(open_(), tensors())
    assert hub.fetched() == []
    assert [request.path for request in hub.requests] == [f"/api/models/{REPO}/revision/main"]


def test_a_named_commit_in_the_cache_needs_no_request(hub: HubServer, open_: Open) -> None:
    commit = hub.add(REPO, sharded())
    open_()
    hub.requests.clear()
    assert holds(open_(revision=commit), tensors())
    assert hub.requests == []


@pytest.mark.parametrize("named", [True, False], ids=["commit", "branch"])
def test_offline_the_cache_gives_the_same_checkpoint(
    hub: HubServer, open_: Open, named: bool
) -> None:
    commit = hub.add(REPO, {**OTHERS, **sharded()})
    online = open_()
    hub.requests.clear()
    offline = open_(revision=commit if named else None, offline=True)
    assert hub.requests == []
    assert holds(offline, tensors())
    for part in ("name", "config", "texts", "identity", "inert_files", "inert_keys"):
        assert getattr(offline, part) == getattr(online, part)


def test_the_setting_of_huggingface_hub_means_offline_too(
    hub: HubServer, open_: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(REPO, single())
    open_()
    hub.requests.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert holds(open_(), tensors())
    assert hub.requests == []


def test_offline_without_a_cache(hub: HubServer, open_: Open) -> None:
    commit = hub.add(REPO, single())
    for revision in (None, commit):
        with pytest.raises(SourceNotFound, match="without --offline"):
            open_(revision=revision, offline=True)
    assert hub.requests == []


@pytest.mark.parametrize("lost", [SHARDS[1], "tokenizer_config.json", INDEX, "config.json"])
def test_offline_a_file_that_the_cache_lacks_is_not_taken_for_absent(
    hub: HubServer, open_: Open, tmp_path: Path, lost: str
) -> None:
    hub.add(REPO, sharded())
    open_()
    next((tmp_path / "cache").glob(f"models--*/snapshots/*/{lost}")).unlink()
    with pytest.raises(SourceNotFound, match=re.escape(lost)) as caught:
        open_(offline=True)
    assert "without --offline" in str(caught.value)
    assert holds(open_(), tensors())  # online it comes back


def test_offline_a_cache_without_a_list_of_files_is_refused(
    hub: HubServer, open_: Open, tmp_path: Path
) -> None:
    commit = hub.add(REPO, single())
    open_()
    # Another folder, because huggingface_hub remembers the lists that it read in this process.
    shutil.copytree(tmp_path / "cache", tmp_path / "copy", symlinks=True)
    (trees,) = (tmp_path / "copy").glob("models--*/trees")
    shutil.rmtree(trees)
    with pytest.raises(SourceError, match="no list of the files"):
        open_hub(REPO, cache_dir=tmp_path / "copy", offline=True)
    (snapshot,) = (tmp_path / "copy").glob(f"models--*/snapshots/{commit}")
    assert holds(open_folder(snapshot), tensors())  # as the hint says; its files are links


# --- refusals and failures of the Hub


def test_a_missing_repository(hub: HubServer, open_: Open) -> None:
    hub.add(REPO, single())
    with pytest.raises(SourceNotFound, match="org/modle") as caught:
        open_("org/modle")
    assert "hf auth login" in str(caught.value)
    assert holds(open_(), tensors())


def test_a_missing_repository_much_like_a_named_one(hub: HubServer, open_: Open) -> None:
    with pytest.raises(SourceNotFound, match="Qwen/Qwen3-06B") as caught:
        open_("Qwen/Qwen3-06B")
    assert str(caught.value.hint).startswith("did you mean Qwen/Qwen3-0.6B")
    with pytest.raises(SourceNotFound) as caught:
        open_("Qwen/Qwen3-0.6B")
    assert "did you mean" not in str(caught.value)


def test_a_name_that_no_repository_can_have(hub: HubServer, open_: Open) -> None:
    with pytest.raises(SourceNotFound, match="no name of a Hub repository"):
        open_("org/a--b")


@pytest.mark.parametrize("token", [None, "hf_of_somebody_else"])
def test_a_gated_repository(
    hub: HubServer, open_: Open, monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    hub.add(REPO, single())
    hub.repositories[REPO].gated = True
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", token is None)
    monkeypatch.setenv("HF_TOKEN", token or "")
    with pytest.raises(SourceError, match="gated") as caught:
        open_()
    assert f"https://huggingface.co/{REPO}" in str(caught.value)
    assert "hf auth login" in str(caught.value)
    assert not isinstance(caught.value, SourceNotFound)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert holds(open_(), tensors())


def test_a_server_that_fails(hub: HubServer, open_: Open) -> None:
    hub.add(REPO, sharded())
    hub.failing.add(SHARDS[1])
    with pytest.raises(SourceError, match="the Hub answers 500"):
        open_()
    hub.failing.clear()
    hub.requests.clear()
    assert holds(open_(), tensors())
    assert SHARDS[1] in hub.fetched()
    assert "config.json" not in hub.fetched()  # what was complete is kept


def test_an_interrupted_download_goes_on_where_it_stopped(
    hub: HubServer, open_: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 64)  # far below the size of the file
    hub.add(REPO, single())
    hub.cut.add("model.safetensors")
    assert holds(open_(), tensors())
    assert hub.cut == set()
    gets = [r for r in hub.requests if r.method == "GET" and r.path.endswith(".safetensors")]
    assert [request.range is None for request in gets] == [True, False]
    assert gets[1].range != "bytes=0-"


def test_no_network_is_an_error_even_where_the_cache_could_answer(
    hub: HubServer, open_: Open, tmp_path: Path
) -> None:
    hub.add(REPO, single())
    open_()
    with socket.socket() as nobody:  # bound, never listening: connections are refused
        nobody.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(SourceError, match="could not be fetched") as caught:
            open_hub(REPO, cache_dir=tmp_path / "cache", endpoint=endpoint)
        assert "--offline" in str(caught.value)
        checkpoint = open_hub(REPO, cache_dir=tmp_path / "cache", endpoint=endpoint, offline=True)
    assert holds(checkpoint, tensors())


def test_what_is_damaged_on_the_hub_is_refused_after_the_download(
    hub: HubServer, open_: Open
) -> None:
    hub.add(REPO, {**sharded(), SHARDS[0]: sharded()[SHARDS[0]][:-1]})
    with pytest.raises(SourceError, match=REPO) as caught:
        open_()
    assert "truncated" in str(caught.value)
    hub.repositories[REPO].commit(sharded())
    assert holds(open_(), tensors())
