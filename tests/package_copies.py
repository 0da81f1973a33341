"""Copies of golden packages to break, and plain code that reads and writes their weight files."""

import hashlib
import json
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from golden import GOLDEN

from masu.specs.manifest import Ledger, Manifest, Source

WEIGHTS = "model.safetensors"
FILES = ("config.json", WEIGHTS, "tokenizer.json")


@dataclass
class Weights:
    """model.safetensors in memory: header entries in file order, and the bytes of each array."""

    metadata: dict[str, str]
    entries: dict[str, dict[str, Any]]
    data: dict[str, bytes]

    @classmethod
    def load(cls, folder: Path) -> "Weights":
        raw = (folder / WEIGHTS).read_bytes()
        (length,) = struct.unpack("<Q", raw[:8])
        entries = json.loads(raw[8 : 8 + length])
        metadata = entries.pop("__metadata__", {})
        body = raw[8 + length :]
        data = {name: body[slice(*entry["data_offsets"])] for name, entry in entries.items()}
        return cls(metadata, entries, data)

    def save(self, folder: Path) -> None:
        """Offsets follow from the bytes; what the entries say of dtype and shape stands."""
        start = 0
        for name, entry in self.entries.items():
            entry["data_offsets"] = [start, start := start + len(self.data[name])]
        header = json.dumps({"__metadata__": self.metadata, **self.entries}).encode()
        padded = header + b" " * (-len(header) % 64)
        body = b"".join(self.data[name] for name in self.entries)
        (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(padded)) + padded + body)

    def put(self, name: str, dtype: str, shape: list[int], data: bytes) -> None:
        self.entries[name] = {"dtype": dtype, "shape": shape}
        self.data[name] = data

    def drop(self, name: str) -> None:
        del self.entries[name], self.data[name]


def copy_package(case: str, target: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / case / "engine", target / case))


def edit_config(folder: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    config = json.loads((folder / "config.json").read_text())
    edit(config)
    (folder / "config.json").write_text(json.dumps(config, indent=4))


def edit_weights(folder: Path, edit: Callable[[Weights], None]) -> None:
    weights = Weights.load(folder)
    edit(weights)
    weights.save(folder)


def make_manifest(folder: Path, **changes: Any) -> Manifest:
    """A manifest that is true of the folder as it is, but for `changes`."""
    weights = Weights.load(folder)
    files = {name: (folder / name).read_bytes() for name in FILES if name != WEIGHTS}
    raw = (folder / WEIGHTS).read_bytes()
    files["model.safetensors: header"] = raw[: 8 + struct.unpack("<Q", raw[:8])[0]]
    values: dict[str, Any] = {
        "format_version": 1,
        "masu_version": "0.1.0",
        "engine": "uzu-0.6",
        "dtype": "BF16",
        "source": Source(kind="folder", name=None, revision=None, files={}),
        "family": "llama",
        "overrides": {},
        "recipe": None,
        "files": {name: sha256(data) for name, data in files.items()},
        "tensors": {name: sha256(data) for name, data in weights.data.items()},
        "source_tensors": {},
        "formats": {
            key.removesuffix(".spec"): text
            for key, text in weights.metadata.items()
            if not key.endswith((".quantized.spec", ".adapter.spec"))
        },
        "ledger": Ledger(tensors={}, config_keys={}, files={}, notes=()),
        "text_vectors": (),
    }
    return Manifest(**values | changes)


def add_manifest(folder: Path, **changes: Any) -> None:
    (folder / "manifest.json").write_bytes(make_manifest(folder, **changes).to_bytes())


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
