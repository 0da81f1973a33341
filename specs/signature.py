"""signature.json: an ed25519 signature over what a package says of itself.

The manifest vouches for config.json, model.safetensors and tokenizer.json; the signature vouches
for the manifest and for every other file, so a signed package has no byte that can change.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field

from masu.specs.errors import PackageError, SchemaError
from masu.specs.finding import Finding
from masu.specs.jsonfile import MAX_BYTES
from masu.specs.manifest import Sha256
from masu.specs.package import CONFIG, TOKENIZER, WEIGHTS
from masu.specs.regular_file import open_regular, read_regular
from masu.specs.schema_errors import validate_json
from masu.specs.strict import IntegersOnly, Strict

SIGNATURE = "signature.json"

VOUCHED_BY_MANIFEST = frozenset({CONFIG, WEIGHTS, TOKENIZER})

_CHUNK = 1 << 20


class Signature(Strict):
    """The whole of signature.json.

    Attributes:
        public_key: of the signer, 32 bytes in hexadecimal: says which key to try, proves nothing.
        files: hash of every file that the manifest does not vouch for, by its path in the package.
        signature: of `signed_text(files)`, 64 bytes in hexadecimal.
    """

    format_version: Annotated[Literal[1], IntegersOnly]
    algorithm: Literal["ed25519"]
    public_key: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    files: dict[str, Sha256]
    signature: Annotated[str, Field(pattern="^[0-9a-f]{128}$")]

    def to_bytes(self) -> bytes:
        """ASCII JSON with sorted keys."""
        text = json.dumps(self.model_dump(mode="json"), indent=1, sort_keys=True)
        return f"{text}\n".encode("ascii")

    @classmethod
    def read(cls, package: Path) -> Self:
        """Raises SchemaError if the package's signature.json is not of the format."""
        file = package / SIGNATURE
        return validate_json(cls, read_regular(file, MAX_BYTES, error=SchemaError), str(file))


def signed_text(files: Mapping[str, str]) -> bytes:
    """The bytes that are signed: a first line of their own, then what `sha256sum` would print.

    The first line keeps a signature from being taken for one over anything else.
    """
    lines = [f"{files[name]}  {name}\n" for name in sorted(files)]
    return "".join(["masu package signature 1\n", *lines]).encode()


def files_to_sign(package: Path) -> dict[str, str]:
    """Hash of every file of a package but those that its manifest vouches for, and signature.json.

    Raises:
        PackageError: something in the folder is no regular file, or cannot be read.
    """
    apart = VOUCHED_BY_MANIFEST | {SIGNATURE}
    paths = sorted(path for path in package.rglob("*") if path.is_symlink() or not path.is_dir())
    names = {path.relative_to(package).as_posix(): path for path in paths}
    return {name: _sha256(path) for name, path in names.items() if name not in apart}


def signed_file_findings(package: Path, signature: Signature) -> Iterator[Finding]:
    """Differences between the files and what was signed: changed, removed and added ones."""
    try:
        found = files_to_sign(package)
    except PackageError as error:
        yield Finding("signature", SIGNATURE, f"not all files can be compared: {error}")
        return
    for name in sorted(found.keys() | signature.files.keys()):
        if name not in found:
            yield Finding("signature", name, "was signed, but is not in the folder")
        elif name not in signature.files:
            yield Finding("signature", name, "is in the folder, but was not signed")
        elif found[name] != signature.files[name]:
            message = f"sha256 is {found[name]}, signed was {signature.files[name]}"
            yield Finding("signature", name, message)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open_regular(path, error=PackageError) as file:
        try:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
        except OSError as cause:
            raise PackageError(f"{path} cannot be read: {cause.strerror}") from cause
    return digest.hexdigest()
