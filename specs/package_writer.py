"""Writes the files of a package into a folder: config, tensors, tokenizer, manifest."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from masu.specs.container_layout import FileLayout, plan_layout
from masu.specs.container_writer import WrittenHashes, write_container
from masu.specs.dialect import Dialect
from masu.specs.dtypes import FloatDType
from masu.specs.manifest import MANIFEST, Ledger, Manifest, Source
from masu.specs.model import ModelConfig
from masu.specs.stream import FileRange, Piece, PlannedTensor
from masu.specs.tensors import ArraySpec


@dataclass(frozen=True, kw_only=True)
class PackageContents:
    """A package before it is written.

    Attributes:
        stream: every tensor, in canonical names.
        dialect: how the engine spells config keys, tensor names and planes.
    """

    config: ModelConfig
    stream: Sequence[PlannedTensor]
    tokenizer: bytes
    dialect: Dialect

    @property
    def config_json(self) -> bytes:
        """config.json as lalamo writes it: indent 4, ASCII, no newline at the end."""
        values = self.dialect.encode_config(self.config.model_dump())
        return json.dumps(values, indent=4).encode("ascii")

    @property
    def metadata(self) -> dict[str, str]:
        """The weight spec of every matrix, as stored in the header of model.safetensors."""
        return {
            key: value
            for tensor in self.stream
            if tensor.format is not None
            for key, value in tensor.format.metadata(self.dialect.stored_name(tensor.name)).items()
        }

    @property
    def layout(self) -> FileLayout:
        """Exact header and size of model.safetensors."""
        arrays: dict[str, ArraySpec] = {}
        for tensor in self.stream:
            arrays |= {self.dialect.stored_name(n): spec for n, spec in tensor.arrays.items()}
        return plan_layout(arrays, self.metadata)

    @property
    def formats(self) -> dict[str, str]:
        """Each matrix's spec as text, by canonical name."""
        return {t.name: t.format.to_json() for t in self.stream if t.format is not None}


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What the manifest says beside the hashes."""

    masu_version: str
    engine: str
    dtype: FloatDType
    source: Source
    ledger: Ledger


def write_package(
    folder: Path,
    contents: PackageContents,
    provenance: Provenance,
    source_hashes: Callable[[Mapping[FileRange, str]], Mapping[str, str]],
    *,
    on_bytes: Callable[[int], None] | None = None,
) -> Manifest:
    """Write every file of the package into an empty folder and return its manifest.

    Args:
        source_hashes: from the hashes of the stretches of the source that were copied, those of
            all source tensors; called once all arrays are written.

    Raises:
        OutputError, SourceError: see `write_container`.
    """
    stream = [_spelled(tensor, contents.dialect) for tensor in contents.stream]
    weights = folder / "model.safetensors"
    written = write_container(weights, stream, contents.metadata, on_bytes=on_bytes)
    (folder / "config.json").write_bytes(contents.config_json)
    (folder / "tokenizer.json").write_bytes(contents.tokenizer)
    manifest = _manifest(contents, provenance, written, source_hashes(written.ranges))
    (folder / MANIFEST).write_bytes(manifest.to_bytes())
    return manifest


def _manifest(
    contents: PackageContents,
    provenance: Provenance,
    written: WrittenHashes,
    source_tensors: Mapping[str, str],
) -> Manifest:
    return Manifest(
        format_version=1,
        masu_version=provenance.masu_version,
        engine=provenance.engine,
        dtype=provenance.dtype,
        source=provenance.source,
        recipe=None,
        files={
            "config.json": hashlib.sha256(contents.config_json).hexdigest(),
            "model.safetensors: header": written.header,
            "tokenizer.json": hashlib.sha256(contents.tokenizer).hexdigest(),
        },
        tensors=written.arrays,
        source_tensors=dict(source_tensors),
        formats=contents.formats,
        ledger=provenance.ledger,
        text_vectors=(),
    )


def _spelled(tensor: PlannedTensor, dialect: Dialect) -> PlannedTensor:
    """The same tensor under the names of the dialect's files."""
    arrays = {dialect.stored_name(name): spec for name, spec in tensor.arrays.items()}
    if arrays.keys() == tensor.arrays.keys():
        return tensor

    def pieces() -> Iterator[tuple[str, Piece]]:
        yield from ((dialect.stored_name(name), piece) for name, piece in tensor.pieces())

    return replace(tensor, arrays=arrays, pieces=pieces)
