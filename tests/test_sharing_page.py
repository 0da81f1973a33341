"""The sessions of docs/sharing.md, run as they stand there, with a stand-in for the Hub."""

import re
import shlex
from fnmatch import fnmatch
from pathlib import Path

import pytest
from click.testing import CliRunner
from hub_server import HubServer
from package_copies import add_manifest, copy_package
from package_reports import put_report

from masu.cli.app import main
from masu.signing import new_key, sign
from masu.specs.manifest import Source

# huggingface_hub's own call of its HTTP client, for files that go by git-lfs
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

PAGE = Path(__file__).parent.parent / "docs/sharing.md"
SESSIONS = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
BASE = "org/model"


@pytest.fixture
def ours(logged_in: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HubServer:
    """The stand-in, somebody logged in, and a signed package here."""
    monkeypatch.chdir(tmp_path)
    logged_in.add(BASE, {"README.md": b"---\nlicense: mit\n---\n"})
    copy_package("llama-tied", tmp_path).rename("package")
    add_manifest(Path("package"), source=Source(kind="hub", name=BASE, revision="main", files={}))
    put_report(Path("package"))
    new_key(Path("me.pem"))
    sign(Path("package"), Path("me.pem"))
    return logged_in


def run(session: str, endpoint: str) -> None:
    """Every command of a session; what it prints is what stands below it, if anything does."""
    for command, shown in re.findall(r"^\$ masu (.*)\n((?:[^$].*\n)*)", session, re.M):
        done = CliRunner().invoke(main, shlex.split(command))
        assert done.exit_code == 0, f"{command}: {done.stderr}"
        pattern = shown.replace("https://huggingface.co", endpoint).replace("...", "*")
        assert not shown or fnmatch(done.stdout, pattern), command


def test_what_is_published_can_be_fetched(ours: HubServer, tmp_path: Path) -> None:
    publish, fetch = SESSIONS
    run(publish, ours.endpoint)
    published = ours.repositories["me/model"]
    published.refs["v1"] = published.refs["main"]  # the owner's tag
    (tmp_path / "package").rename(tmp_path / "sent")
    run(fetch, ours.endpoint)
    names = ("config.json", "model.safetensors", "manifest.json", "signature.json")
    for name in names:
        assert Path("package", name).read_bytes() == Path("sent", name).read_bytes()
