"""An engine package on disk, opened strictly: config.json and model.safetensors agree in full."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from masu.specs.container import Container
from masu.specs.dialect import Dialect
from masu.specs.engines import DEFAULT_ENGINE, dialect_of
from masu.specs.errors import NotAPackage, SchemaError
from masu.specs.formats import WeightFormat
from masu.specs.formats.base import Planes
from masu.specs.jsonfile import MAX_BYTES, read_json_file
from masu.specs.manifest import MANIFEST, Manifest
from masu.specs.model import MODEL_CONFIG, ModelConfig
from masu.specs.output import recover
from masu.specs.regular_file import read_regular
from masu.specs.response_format import refuse_response_format
from masu.specs.row_parts import RowPart, joined
from masu.specs.schema_errors import validate_json
from masu.specs.tensor_table import check_table, expected_tensors
from masu.specs.tensors import ArraySpec
from masu.specs.weight_specs import read_formats

__all__ = ["CONFIG", "TOKENIZER", "WEIGHTS", "Package", "expected_tensors", "read_config"]

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"


@dataclass(frozen=True)
class Package:
    """A package whose every config field is known and whose every tensor is accounted for.

    Attributes:
        config: canonical, whatever the dialect.
        dialect: how this package spells it.
        dtype: the model's own element type, by its name in the file.
        formats: weight format of each matrix, by canonical path.
        manifest: None where there is no manifest.json (lalamo writes none).
    """

    path: Path
    config: ModelConfig
    dialect: Dialect
    dtype: str
    formats: Mapping[str, WeightFormat]
    container: Container
    manifest: Manifest | None

    @classmethod
    def open(cls, path: Path | str) -> "Package":
        """Checks everything but the values: no tensor is read and nothing is hashed.

        Raises:
            NotAPackage: the folder is not there, or lacks a file that every package has.
            SchemaError: config.json, a weight spec or manifest.json is not of the format.
            ContainerError: model.safetensors is malformed.
            TensorError: names, shapes or dtypes of the tensors are not those of the config.
            EngineError: a package of a release whose form masu cannot read yet.
        """
        path = Path(path)
        require_package(path)
        config, dialect = read_config(path / CONFIG)
        container = Container.open(path / WEIGHTS)
        return cls.bind(path, config, dialect, container, read_manifest(path))

    @classmethod
    def bind(
        cls,
        path: Path,
        config: ModelConfig,
        dialect: Dialect,
        container: Container,
        manifest: Manifest | None,
    ) -> "Package":
        """Proves that the parts, each of them valid, belong together."""
        where = str(container.path)
        formats = read_formats(config, container.metadata, dialect, where)
        found = {name: ArraySpec(t.dtype, t.shape) for name, t in container.tensors.items()}
        dtype = check_table(config, formats, dialect, found, where)
        return cls(path, config, dialect, dtype, formats, container, manifest)

    @property
    def planes(self) -> Planes:
        return self.dialect.planes

    def tensors(self) -> dict[str, ArraySpec]:
        """Every stored array by canonical name: exactly what the file holds."""
        return expected_tensors(self.config, self.formats, self.dtype, self.planes)

    def read(self, name: str) -> np.ndarray:
        """One stored array by canonical name.

        Raises:
            ContainerError: no such array, or the file changed since it was opened.
            TensorError: the file holds it in parts that do not belong together.
        """
        for path, parts in self._row_parts.items():
            if name.startswith(f"{path}."):
                suffix = name.removeprefix(path)
                pieces = [self.container.read(f"{part.path}{suffix}") for part in parts]
                return joined(name, self.tensors()[name], pieces)
        return self.container.read(self.dialect.stored_name(name))

    def view(self, name: str) -> np.ndarray:
        """The same in the mapped file, for whoever uses the stored bytes in place."""
        return self.container.view(self.dialect.stored_name(name))

    @property
    def _row_parts(self) -> Mapping[str, tuple[RowPart, ...]]:
        return self.dialect.row_parts(self.config)


def read_config(path: Path) -> tuple[ModelConfig, Dialect]:
    """config.json of any known release, as canonical config and the dialect it was in.

    Raises:
        SchemaError: not of the format; names each place.
        EngineError: of a release, but in a form that masu cannot read yet.
    """
    raw = read_json_file(path)
    refuse_response_format(raw, str(path))
    return canonical_config(raw, str(path))


def canonical_config(raw: Any, path: str) -> tuple[ModelConfig, Dialect]:
    """The same of a parsed config.json; `path` names the file in messages."""
    dialect = dialect_of(raw)
    where = path if dialect.name == DEFAULT_ENGINE else f"{path} (read as {dialect.name})"
    canonical = json.dumps(dialect.decode_config(raw)).encode()
    return validate_json(MODEL_CONFIG, canonical, where), dialect


def read_manifest(path: Path) -> Manifest | None:
    """The manifest of the package at `path`; SchemaError if there is one but it is broken."""
    file = path / MANIFEST
    if not file.exists():
        return None
    return Manifest.from_bytes(read_regular(file, MAX_BYTES, error=SchemaError), str(file))


def require_package(path: Path) -> None:
    """Raises NotAPackage where there is nothing that could be opened as one."""
    recover(path)
    try:
        if not path.is_dir():
            _refuse_non_folder(path)
        _require_files(path)
    except OSError as error:
        raise NotAPackage(f"{path} cannot be read: {error.strerror}") from error


def _refuse_non_folder(path: Path) -> None:
    if not path.exists():
        raise NotAPackage(f"{path} does not exist")
    hint = f"masu convert {path} makes a package of it" if path.suffix == ".gguf" else None
    raise NotAPackage(f"{path} is a file, a package is a folder", hint=hint)


def _require_files(path: Path) -> None:
    config = _config_or_none(path / CONFIG)
    if _is_checkpoint(config):
        raise NotAPackage(
            f"{path} is a Hugging Face checkpoint, not a package",
            hint=f"masu convert {path} makes a package of it",
        )
    names = [CONFIG, WEIGHTS, TOKENIZER]
    if isinstance(config, dict) and config.get("type") == "SpeculatorModelConfig":
        names.remove(TOKENIZER)  # it speaks the tokens of the model it drafts for
    missing = [name for name in names if not (path / name).is_file()]
    if missing:
        raise NotAPackage(f"{path} is not a package: it has no {' and no '.join(missing)}")
    for name in names:
        (path / name).open("rb").close()  # proves that it can be read


def _config_or_none(path: Path) -> Any:
    """The parsed file; None where it is missing or broken, which is for others to report."""
    try:
        return read_json_file(path)
    except SchemaError:
        return None


def _is_checkpoint(config: Any) -> bool:
    return isinstance(config, dict) and "model_type" in config and "type" not in config
