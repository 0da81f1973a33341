"""A package against its manifest: every byte is the one that was written."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from masu.specs.container import Container
from masu.specs.finding import Finding
from masu.specs.manifest import MANIFEST, WEIGHTS_HEADER, Manifest
from masu.specs.package import CONFIG, TOKENIZER, WEIGHTS, Package
from masu.specs.stream import FileRange

CHUNK = 1 << 20
"""Bytes that are read and hashed at a time."""


def integrity_findings(
    path: Path, manifest: Manifest, container: Container | None, package: Package | None
) -> Iterator[Finding]:
    """Differences between the files and what the manifest recorded of them.

    Args:
        container: None where model.safetensors is malformed; single tensors are then not named.
        package: None where the package does not hold together.
    """
    try:
        yield from _file_findings(path, manifest)
        if container is not None:
            yield from _tensor_findings(container, manifest)
    except OSError as error:
        yield Finding("integrity", str(error.filename), f"cannot be read: {error.strerror}")
    if package is not None:
        yield from _record_findings(package, manifest)


def _file_findings(path: Path, manifest: Manifest) -> Iterator[Finding]:
    recorded: dict[str, str] = {**manifest.files}
    for name, where in ((CONFIG, CONFIG), (WEIGHTS_HEADER, WEIGHTS), (TOKENIZER, TOKENIZER)):
        file, expected = path / where, recorded.get(name)
        if not file.exists():
            if expected is not None:
                yield Finding("integrity", where, "is in the manifest but not in the folder")
        elif expected is None:
            yield Finding("integrity", where, "is in the folder but not in the manifest")
        elif (found := _sha256(_vouched(file, name))) != expected:
            said = f"{name}: sha256" if where == WEIGHTS else "sha256"
            yield Finding("integrity", where, f"{said} is {found}, the manifest has {expected}")


def _vouched(file: Path, name: str) -> FileRange:
    """The bytes that an entry of the manifest's `files` is the hash of."""
    size = file.stat().st_size
    if name != WEIGHTS_HEADER:
        return FileRange(file, 0, size)
    with file.open("rb") as weights:
        length = int.from_bytes(weights.read(8), "little")
    return FileRange(file, 0, min(8 + length, size))


def _tensor_findings(container: Container, manifest: Manifest) -> Iterator[Finding]:
    for name in sorted(container.tensors.keys() | manifest.tensors.keys()):
        if name not in container.tensors:
            yield Finding("integrity", WEIGHTS, f"{name}: is in the manifest but not in the file")
        elif name not in manifest.tensors:
            yield Finding("integrity", WEIGHTS, f"{name}: is in the file but not in the manifest")
        elif _sha256(container.range(name)) != manifest.tensors[name]:
            yield Finding("integrity", WEIGHTS, f"{name}: its bytes are not those written")


def _record_findings(package: Package, manifest: Manifest) -> Iterator[Finding]:
    """The manifest says again what the package itself says; both must agree."""
    if package.dtype != manifest.dtype:
        message = f"dtype: the manifest has {manifest.dtype}, the tensors are {package.dtype}"
        yield Finding("integrity", MANIFEST, message)
    formats = {path: format_.to_json() for path, format_ in package.formats.items()}
    for path in sorted(formats.keys() | manifest.formats.keys()):
        recorded, found = manifest.formats.get(path), formats.get(path)
        if recorded != found:
            message = f"formats: {path}: the manifest has {recorded}, the package {found}"
            yield Finding("integrity", MANIFEST, message)


def _sha256(stretch: FileRange) -> str:
    digest = hashlib.sha256()
    with stretch.path.open("rb") as file:
        file.seek(stretch.offset)
        left = stretch.length
        while left and (chunk := file.read(min(left, CHUNK))):
            digest.update(chunk)
            left -= len(chunk)
    return digest.hexdigest()
