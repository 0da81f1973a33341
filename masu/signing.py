"""Signs packages with ed25519 keys, and tells whether a signature holds."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from masu.specs.check import check_package, damage
from masu.specs.errors import IntegrityError, OutputError, PackageError, RequestError, SchemaError
from masu.specs.finding import Finding
from masu.specs.jsonfile import MAX_BYTES
from masu.specs.manifest import MANIFEST
from masu.specs.regular_file import read_regular
from masu.specs.signature import (
    SIGNATURE,
    Signature,
    files_to_sign,
    signed_file_findings,
    signed_text,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )


def sign(package: Path | str, key: Path | str) -> Signature:
    """Write signature.json into a package, in place of one that is there.

    Signed are the hashes of manifest.json, report.json and all other files that the manifest does
    not vouch for. Before that every byte is compared with the manifest.

    Args:
        key: a PEM file with an ed25519 private key, not encrypted.

    Raises:
        PackageError: there is no package, it has no manifest, or it differs from it.
        RequestError: the key cannot be read, or `cryptography` is not installed.
        OutputError: signature.json cannot be written.
    """
    folder, private = Path(package), _private_key(Path(key))
    problems = damage(check_package(folder))
    if problems:
        raise IntegrityError(f"{folder} is not sound, so it is not signed", problems=problems)
    if not (folder / MANIFEST).exists():
        raise PackageError(
            f"{folder} has no {MANIFEST}, so a signature would cover none of its weights",
            hint="masu convert writes packages with one",
        )
    files = files_to_sign(folder)
    signature = Signature(
        format_version=1,
        algorithm="ed25519",
        public_key=private.public_key().public_bytes_raw().hex(),
        files=files,
        signature=private.sign(signed_text(files)).hex(),
    )
    _replace(folder / SIGNATURE, signature.to_bytes())
    return signature


def signature_findings(package: Path, key: Path | str) -> Iterator[Finding]:
    """Why a package is not what the owner of `key` signed; nothing if it is.

    The manifest is taken at its word here: comparing it with the files is for `check_package`.

    Args:
        key: a PEM file with an ed25519 public key.

    Raises:
        RequestError: the key cannot be read, or `cryptography` is not installed.
    """
    from cryptography.exceptions import InvalidSignature

    public = _public_key(Path(key))
    if not os.path.lexists(package / SIGNATURE):
        yield Finding("signature", SIGNATURE, "there is none: the package is not signed")
        return
    try:
        signature = Signature.read(package)
    except SchemaError as error:
        yield from (Finding("signature", SIGNATURE, p) for p in error.problems or (error.message,))
        return
    try:
        public.verify(bytes.fromhex(signature.signature), signed_text(signature.files))
    except InvalidSignature:
        yield Finding("signature", SIGNATURE, _invalid(signature, public))
    if MANIFEST not in signature.files:
        yield Finding("signature", MANIFEST, "was not signed, and it vouches for the weights")
    yield from signed_file_findings(package, signature)


def new_key(path: Path | str) -> Path:
    """Write a new private key to `path`, for its owner only, and its public key beside it.

    Returns:
        the file of the public key: `name.pem` gets `name.pub.pem`.

    Raises:
        OutputError: one of the two is there already, for no key is replaced; or cannot be written.
        RequestError: `cryptography` is not installed.
    """
    _require_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    private_file = Path(path)
    public_file = private_file.with_name(f"{private_file.stem}.pub.pem")
    private = Ed25519PrivateKey.generate()
    secret = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    shown = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    if os.path.lexists(public_file):
        raise _taken(public_file)
    _create(private_file, secret, 0o600)
    _create(public_file, shown, 0o644)
    return public_file


def _invalid(signature: Signature, public: "Ed25519PublicKey") -> str:
    given = public.public_bytes_raw().hex()
    if signature.public_key == given:
        return "the signature is not of these hashes: the file was changed"
    return f"signed with the key {signature.public_key}, not with the one given, {given}"


def _private_key(path: Path) -> "Ed25519PrivateKey":
    _require_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    data = read_regular(path, MAX_BYTES, error=RequestError)
    try:
        key = load_pem_private_key(data, password=None)
    except TypeError as error:
        raise RequestError(
            f"{path}: the key is encrypted, and masu never asks for a password",
            hint=f"openssl pkey -in {path} prints it decrypted",
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _no_key(path, "private") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _no_key(path, "private")
    return key


def _public_key(path: Path) -> "Ed25519PublicKey":
    _require_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    data = read_regular(path, MAX_BYTES, error=RequestError)
    try:
        key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _no_key(path, "public") from error
    if not isinstance(key, Ed25519PublicKey):
        raise _no_key(path, "public")
    return key


def _no_key(path: Path, kind: str) -> RequestError:
    return RequestError(
        f"{path}: expected an ed25519 {kind} key in PEM",
        hint="masu sign --new-key FILE makes a pair: FILE is private, FILE's .pub.pem public",
    )


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise RequestError(
            "signatures need the library cryptography, which is not installed",
            hint='pip install "masu[sign]"',
        ) from error


def _taken(path: Path) -> OutputError:
    return OutputError(f"{path}: exists, and a key is never replaced", hint="choose another name")


def _create(path: Path, data: bytes, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(descriptor, "wb") as file:
            file.write(data)
    except FileExistsError as error:
        raise _taken(path) from error
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error


def _replace(path: Path, data: bytes) -> None:
    """The whole new file or the old one: a half-written signature would be a broken package."""
    fresh = path.with_name(f".{path.name}.masu-new")
    try:
        fresh.write_bytes(data)
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error
