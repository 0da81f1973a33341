"""`masu.pull` against the stand-in Hub: one commit, whole or not, damage named and mended."""

import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from golden import GOLDEN
from hub_server import HubServer, Request
from huggingface_hub import constants
from package_copies import add_manifest, copy_package

from masu.pulling import Pulled, pull
from masu.signing import new_key, sign
from masu.specs.errors import (
    IntegrityError,
    NotAPackage,
    OutputError,
    PackageError,
    SourceError,
    SourceNotFound,
)

REPO = "org/model"
Pull = Callable[..., Pulled]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copy_package("llama-tied", tmp_path_factory.mktemp("package"))
    add_manifest(folder)
    (folder / "speculator").mkdir()
    (folder / "speculator/config.json").write_text("{}")
    return folder


@pytest.fixture
def pull_(hub: HubServer, tmp_path: Path) -> Pull:
    """`pull` from the stand-in into `out`."""

    def pull_there(repo: str = REPO, **options: Any) -> Pulled:
        return pull(repo, tmp_path / "out", endpoint=hub.endpoint, **options)

    return pull_there


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_package_arrives_with_the_same_bytes(
    hub: HubServer, pull_: Pull, package: Path, tmp_path: Path
) -> None:
    commit = hub.add(REPO, {**contents(package), "README.md": b"", "notes/x.txt": b""})
    pulled = pull_()
    assert contents(tmp_path / "out") == contents(package)
    assert (pulled.commit, pulled.left_out) == (commit, ("README.md", "notes/x.txt"))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]  # nothing is left beside it
    assert "README.md" not in hub.fetched()


def test_the_revision_is_resolved_once(
    hub: HubServer, pull_: Pull, package: Path, tmp_path: Path
) -> None:
    """The branch moves to something else after the first request."""
    commit = hub.add(REPO, contents(package))

    def move(request: object) -> None:
        hub.repositories[REPO].refs["main"] = hub.repositories[REPO].commit({}, "other")

    hub.on_request = move
    hub.repositories[REPO].refs["v1"] = commit
    assert pull_(f"{REPO}@v1").commit == commit
    assert contents(tmp_path / "out") == contents(package)
    with pytest.raises(SourceNotFound, match="no revision 'v2'"):
        pull_(f"{REPO}@v2", overwrite=True)


def test_files_come_at_the_same_time(
    hub: HubServer, pull_: Pull, package: Path, tmp_path: Path
) -> None:
    """Neither of two files is sent before the other is asked for."""
    hub.add(REPO, contents(package))
    both = threading.Barrier(2, timeout=10)

    def wait(request: Request) -> None:
        if request.method == "GET" and request.path.endswith(("tokenizer.json", ".safetensors")):
            both.wait()

    hub.on_request = wait
    pull_()
    assert contents(tmp_path / "out") == contents(package)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "manifest.json"])
def test_a_file_that_arrives_damaged_is_named_and_fetched_again(
    hub: HubServer, pull_: Pull, package: Path, tmp_path: Path, name: str
) -> None:
    hub.add(REPO, contents(package))
    hub.damaged.add(name)
    with pytest.raises(IntegrityError, match="1 of 5 files arrived damaged") as caught:
        pull_()
    [problem] = caught.value.problems
    kind = "sha256" if name == "model.safetensors" else "git hash"
    assert problem.startswith(f"{name}: {kind} is ")
    assert not (tmp_path / "out").exists()
    hub.requests.clear()
    pull_()
    assert hub.fetched() == [name]
    assert contents(tmp_path / "out") == contents(package)


def test_an_interrupted_file_is_resumed(
    hub: HubServer, pull_: Pull, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1024)
    hub.add(REPO, contents(package))
    hub.cut.add("model.safetensors")
    hub.failing.add("tokenizer.json")
    with pytest.raises(SourceError, match="500"):
        pull_()
    hub.failing.clear()
    pull_()
    gets = [r for r in hub.requests if r.method == "GET" and r.path.endswith(".safetensors")]
    assert any(request.range not in (None, "bytes=0-") for request in gets)
    assert contents(tmp_path / "out") == contents(package)


def test_damage_on_the_hub_itself_is_not_mended_by_fetching(
    hub: HubServer, pull_: Pull, package: Path, tmp_path: Path
) -> None:
    files = contents(package)
    weights = files["model.safetensors"]
    hub.add(REPO, {**files, "model.safetensors": weights[:-1] + bytes([weights[-1] ^ 1])})
    with pytest.raises(IntegrityError, match="damaged on the Hub itself") as caught:
        pull_()
    assert "its bytes are not those written" in caught.value.problems[0]
    assert not (tmp_path / "out").exists()
    hub.repositories[REPO].commit(files)
    hub.requests.clear()
    pull_()
    assert hub.fetched() == ["model.safetensors"]


def test_a_signature_can_be_demanded(
    hub: HubServer, pull_: Pull, package: Path, tmp_path: Path
) -> None:
    public = new_key(tmp_path / "k.pem")
    folder = Path(shutil.copytree(package, tmp_path / "signed"))
    hub.add(REPO, contents(folder))
    with pytest.raises(IntegrityError) as caught:
        pull_(key=public)
    assert caught.value.problems == ("signature.json: there is none: the package is not signed",)
    assert f"not what the owner of {public} signed" in caught.value.message
    assert "damage" not in str(caught.value)
    sign(folder, tmp_path / "k.pem")
    hub.repositories[REPO].commit(contents(folder))
    assert "signature.json" in pull_(key=public).files


def test_what_is_no_package_is_refused_before_its_weights(hub: HubServer, pull_: Pull) -> None:
    hub.add(REPO, contents(GOLDEN / "llama-tied/hf"))
    with pytest.raises(NotAPackage, match=re.escape("its config.json")) as caught:
        pull_()
    assert f"masu convert {REPO}" in str(caught.value.hint)
    assert hub.fetched() == ["config.json"]
    hub.repositories[REPO].commit({"README.md": b""})
    with pytest.raises(NotAPackage, match=re.escape("no config.json and no model.safetensors")):
        pull_()


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "manifest.json"])
def test_messages_name_the_repository(
    hub: HubServer, pull_: Pull, package: Path, tmp_path: Path, name: str
) -> None:
    """Not the folder that is gone by then."""
    commit = hub.add(REPO, {**contents(package), name: b"{"})
    with pytest.raises(PackageError) as caught:
        pull_()
    assert f"{REPO}@{commit}" in str(caught.value)
    assert name in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


def test_a_package_without_a_tokenizer(hub: HubServer, pull_: Pull, package: Path) -> None:
    files = contents(package)
    del files["tokenizer.json"]
    commit = hub.add(REPO, files)
    with pytest.raises(NotAPackage) as caught:
        pull_()
    assert str(caught.value) == f"{REPO}@{commit} is not a package: it has no tokenizer.json"


def test_names_that_lead_out_are_refused(hub: HubServer, pull_: Pull, package: Path) -> None:
    hub.add(REPO, {**contents(package), "speculator/../../x": b""})
    with pytest.raises(NotAPackage, match="lead out of their folder") as caught:
        pull_()
    assert caught.value.problems == ("'speculator/../../x': expected a plain path",)
    assert "do not trust" in str(caught.value.hint)
    assert hub.fetched() == []


def test_only_a_package_is_ever_replaced(
    hub: HubServer, pull_: Pull, package: Path, tmp_path: Path
) -> None:
    hub.add(REPO, contents(package))
    pull_()
    with pytest.raises(OutputError, match="already there"):
        pull_()
    hub.repositories[REPO].commit({**contents(package), "encoding.json": b"{}"})
    pull_(overwrite=True)
    assert (tmp_path / "out/encoding.json").read_bytes() == b"{}"


@pytest.mark.parametrize("name", ["model", "org/model@", "a/b/c", "./x/y"])
def test_what_is_no_name_of_a_repository(pull_: Pull, name: str) -> None:
    with pytest.raises(SourceNotFound, match="no name of a repository"):
        pull_(name)
