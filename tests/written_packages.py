"""Packages with weights drawn from a seed, for any config and formats, as masu writes them."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from package_copies import add_manifest

from masu.specs.container_writer import write_container
from masu.specs.dialect import Dialect
from masu.specs.dtypes import NUMPY_DTYPES
from masu.specs.engine import Candidate
from masu.specs.package_writer import PackageContents
from masu.specs.stream import Piece, PlannedTensor
from masu.specs.tensors import ArraySpec, Entry, Matrix

TOKENIZER = b'{"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0}}}'


def write_package(
    folder: Path,
    candidate: Candidate,
    *,
    seed: int = 0,
    dialect: Dialect | None = None,
    manifest: bool = True,
) -> Path:
    """Every array is drawn by its own name and the seed, so packages share what they share."""
    dialect = dialect or Dialect()
    stream = [
        _planned(candidate, dialect, seed, name, entry)
        for name, entry in candidate.config.tensors()
    ]
    contents = PackageContents(
        config=candidate.config, stream=stream, tokenizer=TOKENIZER, dialect=dialect
    )
    folder.mkdir(parents=True)
    write_container(folder / "model.safetensors", contents.spelled, contents.metadata)
    (folder / "config.json").write_bytes(contents.config_json)
    (folder / "tokenizer.json").write_bytes(TOKENIZER)
    if manifest:
        add_manifest(folder, engine=dialect.name, dtype=candidate.dtype, formats=contents.formats)
    return folder


def _planned(
    candidate: Candidate, dialect: Dialect, seed: int, name: str, entry: Entry
) -> PlannedTensor:
    if isinstance(entry, Matrix):
        format_ = candidate.formats[name]
        stored = format_.arrays(entry.shape, candidate.dtype, dialect.planes)
        arrays = {f"{name}.{suffix}": spec for suffix, spec in stored.items()}
    else:
        format_, arrays = None, {name: ArraySpec(entry.dtype or candidate.dtype, entry.shape)}

    def pieces() -> Iterator[tuple[str, Piece]]:
        for array, spec in arrays.items():
            yield array, drawn(array, spec, seed)

    def read(start: int, stop: int) -> np.ndarray:
        raise NotImplementedError

    return PlannedTensor(
        name=name, format=format_, shape=entry.shape, arrays=arrays, read=read, pieces=pieces
    )


def drawn(name: str, spec: ArraySpec, seed: int) -> np.ndarray:
    """Codes are any bytes, signs are +1 and -1, parameters are normal; planes without padding."""
    random = np.random.default_rng([seed, *name.encode()])
    dtype = NUMPY_DTYPES[spec.dtype]
    if dtype == np.uint8:
        return random.integers(0, 256, spec.shape, np.uint8)
    if dtype.kind == "i":
        return random.choice([-1, 1], spec.shape).astype(dtype)
    return random.standard_normal(spec.shape, np.float32).astype(dtype)
