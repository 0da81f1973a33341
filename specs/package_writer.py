"""Writes the files of a package into a folder: config, tensors, tokenizer, manifest."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from masu.specs.container_layout import FileLayout, plan_layout
from masu.specs.container_writer import HINTS, WrittenHashes, write_container
from masu.specs.dialect import Dialect
from masu.specs.dtypes import FLOAT_DTYPES, FloatDType
from masu.specs.errors import OutputError
from masu.specs.journal import JOURNAL, Journal
from masu.specs.manifest import MANIFEST, CalibrationRecord, Ledger, Manifest, Source
from masu.specs.model import ModelConfig
from masu.specs.row_parts import split
from masu.specs.stream import FileRange, Piece, PlannedTensor
from masu.specs.strict import Strict
from masu.specs.tensors import ArraySpec, Shape
from masu.specs.text_vectors import TextVector


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

    @cached_property
    def spelled(self) -> Sequence[PlannedTensor]:
        """The stream under the names, and in the pieces, of the dialect's files.

        Raises:
            EngineError: a matrix cannot be stored in the pieces that the dialect asks for.
        """
        parts = self.dialect.row_parts(self.config)
        stream: list[PlannedTensor] = []
        for tensor in self.stream:
            if tensor.name in parts:
                stream += split(tensor, parts[tensor.name], self._arrays_of(tensor))
            else:
                stream.append(_spelled(tensor, self.dialect))
        return stream

    def _arrays_of(self, tensor: PlannedTensor) -> Callable[[Shape], Mapping[str, ArraySpec]]:
        """What a matrix of another shape, but the format and dtype of `tensor`, stores."""
        own, planes = tensor.format, self.dialect.planes

        def arrays(shape: Shape, dtype: str) -> dict[str, ArraySpec]:
            return {} if own is None else own.arrays(shape, dtype, planes)

        stored = {n.removeprefix(f"{tensor.name}."): spec for n, spec in tensor.arrays.items()}
        dtypes = (dtype for dtype in FLOAT_DTYPES.values())
        dtype = next((d for d in dtypes if arrays(tensor.shape, d) == stored), "BF16")
        return lambda shape: arrays(shape, dtype)

    @property
    def metadata(self) -> dict[str, str]:
        """The weight spec of every matrix, as stored in the header of model.safetensors."""
        return {
            key: value
            for tensor in self.spelled
            if tensor.format is not None
            for key, value in tensor.format.metadata(tensor.name).items()
        }

    @cached_property
    def layout(self) -> FileLayout:
        """Exact header and size of model.safetensors."""
        arrays: dict[str, ArraySpec] = {}
        for tensor in self.spelled:
            arrays |= tensor.arrays
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
    family: str
    overrides: Mapping[str, Any]
    ledger: Ledger
    recipe: Mapping[str, Any] | None = None
    calibration: CalibrationRecord | None = None
    stop_origins: Mapping[int, Sequence[str]] = field(default_factory=dict)


def text_vectors(
    contents: PackageContents, stop_origins: Mapping[int, Sequence[str]]
) -> tuple[TextVector, ...]:
    """Those of the package to be; `stop_origins`: the files that name each stop token."""
    from masu.specs.text.tokenizer import PackageTokenizer
    from masu.specs.text.vectors import record_vectors

    return record_vectors(contents.config, PackageTokenizer(contents.tokenizer), stop_origins)


def write_package(
    folder: Path,
    contents: PackageContents,
    provenance: Provenance,
    source_hashes: Callable[[Mapping[FileRange, str]], Mapping[str, str]],
    *,
    on_bytes: Callable[[int], None] | None = None,
    sources_stamp: str | None = None,
) -> Manifest:
    """Write every file of the package into an empty folder and return its manifest.

    Args:
        source_hashes: from the hashes of the stretches of the source that were copied, those of
            all source tensors; called once all arrays are written.
        sources_stamp: what tells whether the source's files are still the same. With it a journal
            is kept in the folder, and one that an interrupted run left there is gone on with.

    Raises:
        OutputError, SourceError: see `write_container`.
    """
    weights = folder / "model.safetensors"
    with _journal(folder, contents, provenance, sources_stamp) as journal:
        written = write_container(
            weights, contents.spelled, contents.metadata, on_bytes=on_bytes, journal=journal
        )
    _write(folder / "config.json", contents.config_json)
    _write(folder / "tokenizer.json", contents.tokenizer)
    manifest = _manifest(contents, provenance, written, source_hashes(written.ranges))
    _write(folder / MANIFEST, manifest.to_bytes())
    return manifest


@contextmanager
def _journal(
    folder: Path, contents: PackageContents, provenance: Provenance, stamp: str | None
) -> Iterator[Journal | None]:
    if stamp is None:
        yield None
        return
    journal = Journal(folder / JOURNAL, _identity(contents, provenance, stamp))
    try:
        yield journal
    finally:
        journal.close()


def _identity(contents: PackageContents, provenance: Provenance, stamp: str) -> str:
    """A hash of all that decides the bytes of the package."""
    said = {
        each.name: value.model_dump(mode="json") if isinstance(value, Strict) else value
        for each in fields(provenance)
        for value in [getattr(provenance, each.name)]
    }
    parts = (
        contents.layout.header,
        contents.config_json,
        contents.tokenizer,
        json.dumps(said, sort_keys=True).encode("ascii"),
        stamp.encode(),
    )
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as cause:
        message = f"{path} cannot be written: {cause.strerror}"
        raise OutputError(message, hint=HINTS.get(cause.errno or 0)) from cause


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
        family=provenance.family,
        overrides=dict(provenance.overrides),
        recipe=None if provenance.recipe is None else dict(provenance.recipe),
        calibration=provenance.calibration,
        files={
            "config.json": hashlib.sha256(contents.config_json).hexdigest(),
            "model.safetensors: header": written.header,
            "tokenizer.json": hashlib.sha256(contents.tokenizer).hexdigest(),
        },
        tensors=written.arrays,
        source_tensors=dict(source_tensors),
        formats=contents.formats,
        ledger=provenance.ledger,
        text_vectors=text_vectors(contents, provenance.stop_origins),
    )


def _spelled(tensor: PlannedTensor, dialect: Dialect) -> PlannedTensor:
    """The same tensor under the names of the dialect's files."""
    arrays = {dialect.stored_name(name): spec for name, spec in tensor.arrays.items()}
    if arrays.keys() == tensor.arrays.keys():
        return tensor

    def pieces() -> Iterator[tuple[str, Piece]]:
        yield from ((dialect.stored_name(name), piece) for name, piece in tensor.pieces())

    return replace(tensor, name=dialect.stored_name(tensor.name), arrays=arrays, pieces=pieces)
