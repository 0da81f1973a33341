"""`masu sign`, `check --key`, `push` and `pull` as a program sees them: streams and exit status."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hub_server import HubServer
from package_copies import add_manifest, copy_package
from package_reports import put_report

from masu.cli.app import main

REPO = "me/model"

# huggingface_hub's own call of its HTTP client, for files that go by git-lfs
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


def masu(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = copy_package("llama-tied", tmp_path)
    add_manifest(folder)
    put_report(folder)
    return folder


def test_sign_and_check(package: Path, tmp_path: Path) -> None:
    made = masu("sign", "--new-key", tmp_path / "k.pem")
    assert (made.exit_code, made.stdout) == (0, f"{tmp_path / 'k.pub.pem'}\n")
    unsigned = masu("check", package, "--key", tmp_path / "k.pub.pem", "--json")
    assert unsigned.exit_code == 1
    [problem] = [f for f in json.loads(unsigned.stdout)["findings"] if f["severity"] == "problem"]
    assert (problem["kind"], problem["where"]) == ("signature", "signature.json")
    signed = masu("sign", package, "--key", tmp_path / "k.pem")
    assert (signed.exit_code, signed.stdout) == (0, f"{package / 'signature.json'}\n")
    junit = tmp_path / "check.xml"
    assert masu("check", package, "--key", tmp_path / "k.pub.pem", "--junit", junit).exit_code == 0
    assert 'name="signature"' in junit.read_text()


@pytest.mark.parametrize("arguments", [[], ["p"], ["--key", "k"], ["p", "--new-key", "k"]])
def test_sign_wants_a_package_and_a_key_or_a_new_key(arguments: list[str]) -> None:
    done = masu("sign", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")


def test_migrate_tells_of_a_signature(package: Path, tmp_path: Path) -> None:
    """It is of the old files."""
    masu("sign", "--new-key", tmp_path / "k.pem")
    masu("sign", package, "--key", tmp_path / "k.pem")
    done = masu("migrate", package, "-o", tmp_path / "old", "--engine", "uzu-0.5")
    assert done.exit_code == 0
    assert "not carried over: signature.json" in done.stderr
    assert not (tmp_path / "old/signature.json").exists()
    masu("migrate", tmp_path / "old", "-o", tmp_path / "new")
    again = masu("migrate", tmp_path / "new", "-o", tmp_path / "x", "--engine", "uzu-0.5", "--json")
    assert json.loads(again.stdout)["left_out"] == []


@pytest.mark.parametrize("command", [["pull", REPO], ["convert", "x"], ["migrate", "x"]])
def test_no_folder_is_no_name_of_one(command: list[str]) -> None:
    """`-o ''`, as an unset variable of a shell gives it, is not the folder one is in."""
    refused = masu(*command, "-o", "")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "expected the name of a folder" in refused.stderr


def test_push_and_pull(logged_in: HubServer, package: Path, tmp_path: Path) -> None:
    shown = masu("push", package, REPO, "--license", "mit", "--dry-run")
    assert (shown.exit_code, REPO in logged_in.repositories) == (0, False)
    assert shown.stdout.startswith("---\nlicense: mit\n")
    pushed = masu("push", package, REPO, "--license", "mit")
    commit = f"{REPO}/commit/{logged_in.repositories[REPO].refs['main']}"
    assert (pushed.exit_code, pushed.stdout) == (0, f"{logged_in.endpoint}/{commit}\n")
    pulled = masu("pull", REPO, "-o", tmp_path / "out")
    assert (pulled.exit_code, pulled.stdout) == (0, f"{tmp_path / 'out'}\n")
    assert "left on the Hub: .gitattributes, README.md" in pulled.stderr
    assert masu("pull", REPO, "-o", tmp_path / "out").exit_code == 2


def test_push_of_an_unverified_package_is_1(logged_in: HubServer, package: Path) -> None:
    (package / "report.json").unlink()
    refused = masu("push", package, REPO, "--license", "mit")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "not verified: it has no report.json" in refused.stderr
    assert logged_in.requests == []
