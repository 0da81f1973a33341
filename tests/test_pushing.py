"""`masu.push` against the stand-in Hub: only verified packages, with a card, in one commit."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hub_server import TOKEN, HubServer
from huggingface_hub import ModelCard, constants
from package_copies import add_manifest, copy_package
from package_reports import HASH, VERDICT, put_report

from masu.pulling import pull
from masu.pushing import Pushed, prepare, push
from masu.specs.errors import (
    IntegrityError,
    MasuError,
    OutputError,
    RequestError,
    VerdictError,
)
from masu.specs.manifest import Ledger, LedgerEntry, Source

# huggingface_hub's own call of its HTTP client, for files that go by git-lfs
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

REPO, BASE = "me/model-masu", "org/model"
LEDGER = Ledger(
    tensors={"vision.x": LedgerEntry(status="left_out", into=(), reason="vision tower")},
    config_keys={},
    files={},
    notes=("rounded 3 tensors",),
)
Push = Callable[..., Pushed]


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copy_package("llama-mlx-4bit-g64", tmp_path_factory.mktemp("verified"))
    source = Source(kind="hub", name=BASE, revision="main", files={})
    recipe = {"name": "mlx-4bit"}
    add_manifest(folder, source=source, recipe=recipe, ledger=LEDGER)
    put_report(folder)
    return folder


@pytest.fixture
def package(verified: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(verified, tmp_path / "package"))


@pytest.fixture
def push_(hub: HubServer, package: Path, monkeypatch: pytest.MonkeyPatch) -> Push:
    """`push` of the package by somebody who is logged in; its source is on the stand-in too."""
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    card = "---\nlicense: other\nlicense_name: rice\nlicense_link: LICENSE\n---\n# Model\n"
    hub.add(BASE, {"README.md": card.encode()})

    def push_there(**options: Any) -> Pushed:
        return push(package, REPO, endpoint=hub.endpoint, **options)

    return push_there


def files_of(hub: HubServer) -> dict[str, bytes]:
    repository = hub.repositories[REPO]
    return repository.commits[repository.refs["main"]]


def written(hub: HubServer) -> list[str]:
    return [request.path for request in hub.requests if request.method == "POST"]


def test_a_verified_package_goes_up_and_comes_back(
    hub: HubServer, push_: Push, package: Path, tmp_path: Path
) -> None:
    pushed = push_()
    names = {path.name for path in package.iterdir()}
    assert set(files_of(hub)) == {*names, "README.md", ".gitattributes"}
    assert len(hub.large) == 1  # the weights went by git-lfs
    assert pushed.commit == hub.repositories[REPO].refs["main"]
    pulled = pull(f"{REPO}@{pushed.commit}", tmp_path / "back", endpoint=hub.endpoint)
    assert set(pulled.files) == names
    for name in names:
        assert (tmp_path / "back" / name).read_bytes() == (package / name).read_bytes()


def test_the_card_says_what_manifest_report_and_source_say(hub: HubServer, push_: Push) -> None:
    push_()
    text = files_of(hub)["README.md"].decode()
    data = ModelCard(text).data.to_dict()
    assert data == {
        "license": "other",
        "license_name": "rice",
        "license_link": "LICENSE",
        "base_model": BASE,
        "base_model_relation": "quantized",
        "tags": ["masu", "uzu-0.6", "llama"],
    }
    for said in (
        "# model-masu\n",
        f"[{BASE}](https://huggingface.co/{BASE}) at `main`",
        "recipe `mlx-4bit`",
        "no logit is further than 2.0e-05",
        "| mean KL divergence (nats) | 0.03125 |",
        "| same most likely token | 87.50% |",
        r"| `decoder.x` | 4 bits \| MLX | 6.25% |",
        "- left out: vision tower\n- rounded 3 tensors\n",
    ):
        assert said in text


def test_dry_run_uploads_nothing(hub: HubServer, push_: Push, package: Path) -> None:
    ready = prepare(package, REPO, endpoint=hub.endpoint)
    assert written(hub) == []
    push_()
    assert files_of(hub)["README.md"].decode() == ready.card


def test_a_second_package_replaces_the_first(hub: HubServer, push_: Push, package: Path) -> None:
    (package / "encoding.json").write_text("{}")
    push_()
    hub.repositories[REPO].commit({**files_of(hub), "notes.txt": b"mine"})
    (package / "encoding.json").unlink()
    assert push_().removed == ("encoding.json",)
    assert files_of(hub)["notes.txt"] == b"mine"
    assert "encoding.json" not in files_of(hub)


def damage_weights(folder: Path) -> None:
    weights = folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)


REFUSED: list[tuple[Callable[[Path], object], type[MasuError], str]] = [
    (lambda p: (p / "report.json").unlink(), VerdictError, "not verified: it has no report.json"),
    (lambda p: put_report(p, verdict=None), VerdictError, "has no verdict"),
    (
        lambda p: put_report(p, verdict=VERDICT.model_copy(update={"passed": False})),
        VerdictError,
        "failed its verdict",
    ),
    (lambda p: put_report(p, manifest=HASH), VerdictError, "about another package"),
    (lambda p: put_report(p, manifest=None), VerdictError, "about another package"),
    (lambda p: (p / "report.json").write_text("{}"), IntegrityError, "damaged"),
    (lambda p: (p / "manifest.json").unlink(), VerdictError, r"no manifest\.json"),
    (damage_weights, IntegrityError, "damaged"),
]


@pytest.mark.parametrize(("fault", "error", "message"), REFUSED)
def test_an_unverified_package_is_refused_before_anything_is_sent(
    hub: HubServer,
    push_: Push,
    package: Path,
    fault: Callable[[Path], object],
    error: type[MasuError],
    message: str,
) -> None:
    fault(package)
    with pytest.raises(error, match=message):
        push_(licence="mit")
    assert REPO not in hub.repositories
    assert hub.requests == []


def test_the_report_of_another_manifest_proves_nothing(
    hub: HubServer, push_: Push, package: Path
) -> None:
    add_manifest(package, family="llama2")  # true of the files, but not the one that was judged
    with pytest.raises(VerdictError, match="about another package"):
        push_(licence="mit")
    put_report(package)
    assert push_(licence="mit").repo == REPO


@pytest.mark.parametrize("licence", ["", "my own words", "mit\nbase_model: x", "Apache 2.0"])
def test_a_licence_is_an_identifier(push_: Push, licence: str) -> None:
    with pytest.raises(RequestError, match="expected an identifier"):
        push_(licence=licence)


def test_a_licence_that_nobody_names(hub: HubServer, push_: Push, package: Path) -> None:
    hub.repositories[BASE].commit({"README.md": b"# no metadata"})
    with pytest.raises(RequestError, match=f"the card of {BASE} names none"):
        push_()
    add_manifest(package, source=Source(kind="gguf", name=None, revision=None, files={}))
    put_report(package)
    with pytest.raises(RequestError, match="not on the Hub"):
        push_()
    assert REPO not in hub.repositories
    push_(licence="apache-2.0")
    front = files_of(hub)["README.md"].decode().split("---\n")[1]
    assert yaml.safe_load(front)["license"] == "apache-2.0"


@pytest.mark.parametrize("token", ["", "hf_of_somebody_else"])
def test_who_may_not_write_is_told_so(
    push_: Push, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", not token)
    with pytest.raises(OutputError, match=f"cannot publish {REPO}: the Hub refuses") as caught:
        push_(licence="mit")
    assert "hf auth login" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["model", "me/model@v1", "https://huggingface.co/me/model"])
def test_what_is_no_name_of_a_repository(package: Path, name: str) -> None:
    with pytest.raises(RequestError, match="no name of a repository"):
        prepare(package, name)
