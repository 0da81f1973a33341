"""A signature over manifest and report: any change of a signed package is named."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from package_copies import add_manifest, copy_package, edit_weights, make_manifest
from package_reports import put_report

from masu.migration import migrate
from masu.signing import new_key, sign, signature_findings
from masu.specs.check import check_package, damage
from masu.specs.errors import IntegrityError, NotAPackage, OutputError, PackageError, RequestError
from masu.specs.signature import Signature, signed_text

EXTRA = ("report.json", "encoding.json", "speculator/config.json")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    private = tmp_path_factory.mktemp("keys") / "me.pem"
    return private, new_key(private)


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory, keys: tuple[Path, Path]) -> Path:
    """A package with a manifest and everything that may lie beside it, signed."""
    folder = copy_package("llama-tied", tmp_path_factory.mktemp("signed"))
    add_manifest(folder)
    put_report(folder)
    (folder / "encoding.json").write_text("{}")
    (folder / "speculator").mkdir()
    (folder / "speculator/config.json").write_text("{}")
    sign(folder, keys[0])
    return folder


@pytest.fixture
def package(signed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(signed, tmp_path / "package"))


def found(package: Path, key: Path) -> list[str]:
    """What `masu check --key` says of bytes and signature."""
    return damage([*check_package(package), *signature_findings(package, key)])


def test_an_untouched_package_passes(signed: Path, keys: tuple[Path, Path]) -> None:
    assert found(signed, keys[1]) == []


def test_the_signature_is_plain_ed25519_over_the_hashes(
    signed: Path, keys: tuple[Path, Path]
) -> None:
    """What any other tool can verify: no code of `masu.signing` but the text's first line."""
    signature = Signature.read(signed)
    public = load_pem_public_key(keys[1].read_bytes())
    assert isinstance(public, Ed25519PublicKey)
    assert set(signature.files) == {"manifest.json", *EXTRA}
    text = signed_text(signature.files)
    assert text.startswith(b"masu package signature 1\n")
    assert f"{signature.files['report.json']}  report.json\n".encode() in text
    public.verify(bytes.fromhex(signature.signature), text)


def flip(file: Path, position: int = -2) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 1
    file.write_bytes(data)


def forge(folder: Path) -> None:
    """Other weights, and a manifest that is true of them."""
    edit_weights(folder, lambda weights: weights.data.update(
        {name: bytes(len(data)) for name, data in list(weights.data.items())[:1]}
    ))  # fmt: skip
    add_manifest(folder)


def resign(folder: Path) -> None:
    """The hashes in signature.json made true, by somebody who has no key."""
    old = Signature.read(folder)
    (folder / "report.json").write_bytes(b"{}")
    from masu.specs.signature import files_to_sign

    changed = old.model_copy(update={"files": files_to_sign(folder)})
    (folder / "signature.json").write_bytes(changed.to_bytes())


FAULTS: list[tuple[Callable[[Path], object], str]] = [
    (lambda p: flip(p / "model.safetensors"), "model.safetensors: "),
    (lambda p: flip(p / "tokenizer.json"), "tokenizer.json: sha256 is "),
    (forge, "manifest.json: sha256 is "),
    (lambda p: flip(p / "report.json"), "report.json: sha256 is "),
    (lambda p: (p / "report.json").unlink(), "report.json: was signed, but is not in the folder"),
    (
        lambda p: (p / "fingerprints.json").touch(),
        "fingerprints.json: is in the folder, but was",
    ),
    (lambda p: (p / "speculator/x").touch(), "speculator/x: is in the folder, but was not signed"),
    (lambda p: (p / "link").symlink_to(p.parent), "signature.json: not all files can be compared"),
    (resign, "signature.json: the signature is not of these hashes"),
    (lambda p: (p / "signature.json").unlink(), "signature.json: there is none"),
    (lambda p: (p / "signature.json").write_text("{}"), "signature.json: format_version: missing"),
    (lambda p: (p / "manifest.json").unlink(), "manifest.json: was signed, but is not"),
]


@pytest.mark.parametrize(("fault", "named"), FAULTS)
def test_every_change_is_named(
    package: Path, keys: tuple[Path, Path], fault: Callable[[Path], object], named: str
) -> None:
    fault(package)
    problems = found(package, keys[1])
    assert any(problem.startswith(named) for problem in problems), problems


def test_another_key_is_told_apart(package: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    other = new_key(tmp_path / "other.pem")
    [problem] = found(package, other)
    assert "not with the one given" in problem
    sign(package, tmp_path / "other.pem")  # replaces the signature
    assert found(package, other) == []
    assert found(package, keys[1]) != []


def test_what_is_not_sound_is_not_signed(package: Path, keys: tuple[Path, Path]) -> None:
    before = (package / "signature.json").read_bytes()
    flip(package / "model.safetensors")
    with pytest.raises(IntegrityError, match="not signed"):
        sign(package, keys[0])
    assert (package / "signature.json").read_bytes() == before
    with pytest.raises(NotAPackage):
        sign(package / "speculator", keys[0])


def test_a_package_without_a_manifest_is_not_signed(
    keys: tuple[Path, Path], tmp_path: Path
) -> None:
    with pytest.raises(PackageError, match=r"has no manifest\.json"):
        sign(copy_package("llama-tied", tmp_path), keys[0])


def test_a_migration_leaves_the_signature_behind(package: Path, tmp_path: Path) -> None:
    """It is over the old manifest; what else lies in the folder goes along."""
    shutil.rmtree(package / "speculator")
    migrate(package, tmp_path / "older", engine="uzu-0.5")
    assert not (tmp_path / "older/signature.json").exists()
    assert (tmp_path / "older/encoding.json").exists()


def test_keys_are_their_owners_and_never_replaced(tmp_path: Path) -> None:
    private = tmp_path / "k.pem"
    public = new_key(private)
    assert (public.name, private.stat().st_mode & 0o777) == ("k.pub.pem", 0o600)
    for kept, lost in ((private, public), (public, private)):
        before = kept.read_bytes()
        moved = lost.rename(tmp_path / "away")
        with pytest.raises(OutputError, match=f"{kept.name}: exists"):
            new_key(private)
        assert kept.read_bytes() == before
        assert not lost.exists()
        moved.rename(lost)


def test_other_keys_are_refused(signed: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    private, public = keys
    curve, locked = tmp_path / "curve.pem", tmp_path / "locked.pem"
    form = (Encoding.PEM, PrivateFormat.PKCS8)
    curve.write_bytes(generate_private_key(SECP256R1()).private_bytes(*form, NoEncryption()))
    secret = load_pem_private_key(private.read_bytes(), None)
    locked.write_bytes(secret.private_bytes(*form, BestAvailableEncryption(b"x")))
    for key, message in (
        (curve, "expected an ed25519 private key"),
        (public, "expected an ed25519 private key"),
        (locked, "encrypted"),
        (tmp_path / "none.pem", "cannot be read"),
    ):
        with pytest.raises(RequestError, match=message):
            sign(signed, key)
    with pytest.raises(RequestError, match="expected an ed25519 public key"):
        list(signature_findings(signed, private))


def test_a_manifest_that_is_true_is_what_the_fixture_has(signed: Path) -> None:
    """Without it the faults above would be found for another reason."""
    assert make_manifest(signed).to_bytes() == (signed / "manifest.json").read_bytes()
