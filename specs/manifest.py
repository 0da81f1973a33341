"""manifest.json: where a package came from, and what every source item became.

The engine ignores this file. It holds only functions of the source's bytes, the recipe and the
version of masu (no paths, no times), so equal conversions write equal manifests.
"""

import json
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from masu.specs.dtypes import FloatDType
from masu.specs.schema_errors import validate_json
from masu.specs.strict import U32, Count, IntegersOnly, Strict
from masu.specs.text_vectors import TextVector

MANIFEST = "manifest.json"

WEIGHTS_HEADER = "model.safetensors: header"

PackageFile = Literal["config.json", "model.safetensors: header", "tokenizer.json"]
"""What a manifest vouches for; a closed list, so no manifest can point elsewhere.

Of model.safetensors the header has a hash here, and each array has one of its own: together they
cover every byte, each is hashed once, and a difference is found with its name.
"""

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Source(Strict):
    """The checkpoint that was converted.

    Attributes:
        kind: how it was reached.
        name: repository or distribution; null for local files, whose names may differ.
        revision: commit of a Hub repository, version of a distribution.
        files: hashes of its files, of those that are known.
    """

    kind: Literal["folder", "hub", "gguf", "pypi"]
    name: str | None
    revision: str | None
    files: dict[str, Sha256]


class LedgerEntry(Strict):
    """What one tensor, config key or file of the source became.

    Attributes:
        status: `used`: it shaped the package; `inert`: it is known to change no output;
            `left_out`: it does something that the package does without (a vision tower).
        into: names in the package that it went into.
        reason: why it is not in the package; null only if it is.
    """

    status: Literal["used", "inert", "left_out"]
    into: tuple[str, ...]
    reason: str | None

    @model_validator(mode="after")
    def _accounts_for_itself(self) -> Self:
        if self.status != "used" and (self.into or not self.reason):
            raise ValueError(f"status {self.status} needs a reason, and goes into nothing")
        return self


class Ledger(Strict):
    """Every item of the source by name: nothing is dropped without a word.

    Attributes:
        notes: remarks on the whole, e.g. how many values a change of dtype rounded.
    """

    tensors: dict[str, LedgerEntry]
    config_keys: dict[str, LedgerEntry]
    files: dict[str, LedgerEntry]
    notes: tuple[str, ...]


class CalibrationRecord(Strict):
    """The text that calibrated methods, and measured sensitivity, let the model read.

    Attributes:
        kind: `own`: masu's; `file`; `generated`: what the model made up.
        name: of a file, without its folder; null for other texts.
        sha256: of the text in UTF-8; of a generated one of its token ids, as little-endian int64.
        tokens: how many of it were read.
        seed: that of the first generated sequence, each other one has the next; null for texts.
    """

    kind: Literal["own", "file", "generated"]
    name: str | None
    sha256: Sha256
    tokens: Count
    seed: U32 | None

    def describe(self) -> str:
        """In a message."""
        called = {"own": "masu's own text", "generated": "text that the model generated"}
        what = called.get(self.kind, self.name or "a file")
        return f"{what} (SHA-256 {self.sha256[:12]}..., {self.tokens:,} tokens)"


class Manifest(Strict):
    """The whole of manifest.json.

    Attributes:
        masu_version: the release that wrote the package.
        engine: name of the engine profile that it was written for.
        dtype: the model's own element type.
        family: the `model_type` as which the checkpoint was read.
        overrides: what a named model's entry, or the caller, gave beside the checkpoint: those
            fields of `ModelSpec` that shape a package and are not at their defaults.
        recipe: the recipe as applied; null without one.
        calibration: the text that the recipe's methods read. Not written if they read none.
        files: hash of each file of the package; of model.safetensors, of its header.
        tensors: hash of each stored array's bytes, by its name in model.safetensors.
        source_tensors: hash of each source tensor's bytes.
        formats: weight spec of each matrix, the text of its `.spec` metadata.
        text_vectors: what the package makes of some texts, checked at every load.
        carried: values of config.json that the package's dialect has no words for, by their
            place; `masu migrate` kept them here and puts them back. Not written if there are none.
    """

    format_version: Annotated[Literal[1], IntegersOnly]
    masu_version: str
    engine: str
    dtype: FloatDType
    source: Source
    family: str
    overrides: dict[str, JsonValue]
    recipe: dict[str, JsonValue] | None
    files: dict[PackageFile, Sha256]
    tensors: dict[str, Sha256]
    source_tensors: dict[str, Sha256]
    formats: dict[str, str]
    ledger: Ledger
    text_vectors: tuple[TextVector, ...]
    calibration: CalibrationRecord | None = None
    carried: dict[str, JsonValue] | None = None

    def to_bytes(self) -> bytes:
        """ASCII JSON with sorted keys: equal manifests are equal bytes."""
        values = self.model_dump(mode="json")
        for name in ("calibration", "carried"):
            if values[name] is None:
                del values[name]
        text = json.dumps(values, indent=1, sort_keys=True, ensure_ascii=True, allow_nan=False)
        return f"{text}\n".encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes, where: str = MANIFEST) -> Self:
        """Raises SchemaError, which names each place that is not of the format."""
        return validate_json(cls, data, where)
