"""report.json: what was measured of a package, on which machine, and how long it took.

The engine ignores this file. Unlike the manifest it holds what may vary from run to run, so it is
no part of what makes two packages the same.
"""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field

from masu.specs.errors import SchemaError
from masu.specs.jsonfile import MAX_BYTES
from masu.specs.manifest import MANIFEST, Sha256
from masu.specs.regular_file import read_regular
from masu.specs.schema_errors import validate_json
from masu.specs.strict import U64, Count, IntegersOnly, Strict

REPORT = "report.json"

Nonnegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Bytes = U64


class MeasuredText(Strict):
    """What both models read.

    Attributes:
        name: `evaluation` for the text that comes with masu, else the name of the file.
        sha256: of the text in UTF-8.
        tokens: ids of the text.
        window: the most tokens that a model reads at once, with those that begin a text; each
            window is read from nothing.
        windows: how many there were.
        positions: tokens that were predicted; all figures are over these.
        left_out: tokens that the model's vocabulary does not reach.
    """

    name: str
    sha256: Sha256
    tokens: Count
    window: Count
    windows: Count
    positions: Count
    left_out: Bytes


class WorstPosition(Strict):
    """One token whose prediction suffered most.

    Attributes:
        position: index of the token in the text's tokens.
        kl: in nats.
        before: the text that leads up to it.
        token: the token that stands there.
        after: how the text goes on.
        reference_choice: what the reference thinks most likely, with its probability.
        package_choice: the same of the package.
    """

    position: Bytes
    kl: Nonnegative
    before: str
    token: str
    after: str
    reference_choice: str
    reference_probability: Fraction
    package_choice: str
    package_probability: Fraction


class MatrixError(Strict):
    """One matrix of the package beside the same one of the reference.

    Attributes:
        name: canonical engine name.
        format: in a few words.
        shape: as stored.
        bytes: of all its stored arrays.
        error: Frobenius norm of the difference over that of the reference's matrix.
    """

    name: str
    format: str
    shape: tuple[int, ...]
    bytes: Bytes
    bits_per_weight: Nonnegative
    error: Nonnegative


class LayerError(Strict):
    """What one layer does to the stream; the first entry is the embedding.

    Attributes:
        name: path of the layer.
        own: error of the layer by itself, given the reference's stream, relative to what the
            reference's layer adds to it.
        accumulated: error of the stream after it, relative to the reference's stream.
    """

    name: str
    own: Nonnegative
    accumulated: Nonnegative


class Fidelity(Strict):
    """How far the package's predictions are from those of the full-precision model.

    Attributes:
        reference: what it is compared with.
        reference_bytes: size of the reference's parameters.
        dtype: of the activations of both.
        mean_kl: mean over positions of KL(reference || package), in nats.
        p99_kl: its 99th percentile.
        top1_agreement: share of positions where both think the same token most likely.
        perplexity: of the package on the text.
        bytes: size of model.safetensors.
        parameters: numbers in all matrices and vectors of the package.
        bits_per_weight: 8 times bytes over parameters.
        worst: positions with the largest divergence, largest first.
        matrices: in the order of the config.
        layers: in the order of the model.
    """

    text: MeasuredText
    reference: str
    reference_bytes: Bytes
    dtype: str
    backend: str
    mean_kl: Nonnegative
    p99_kl: Nonnegative
    top1_agreement: Fraction
    perplexity: Nonnegative
    reference_perplexity: Nonnegative
    bytes: Bytes
    parameters: Bytes
    bits_per_weight: Nonnegative
    worst: tuple[WorstPosition, ...]
    matrices: tuple[MatrixError, ...]
    layers: tuple[LayerError, ...]


class VerdictRecord(Strict):
    """The verdict of the conversion; see `masu.Verdict`.

    Attributes:
        told: why it is not `verified`, and what was not compared.
    """

    level: str
    passed: bool
    error: Nonnegative
    bound: Nonnegative
    rounding: Nonnegative
    tokens: Count
    told: tuple[str, ...] = ()


class OtherPackage(Strict):
    """Another package of the same model, measured on the same text, to compare with."""

    name: str
    bytes: Bytes
    bits_per_weight: Nonnegative
    mean_kl: Nonnegative
    p99_kl: Nonnegative


class Machine(Strict):
    """What computed.

    Attributes:
        versions: of Python and of the libraries.
    """

    cpu: str
    cores: Count
    versions: dict[str, str]


class Report(Strict):
    """The whole of report.json.

    Attributes:
        package: the name of its folder when it was written.
        manifest: hash of the manifest.json of the package that this is about; a report beside
            another manifest, or without this, proves nothing (`masu push` refuses it).
        recipe: name of the recipe that it was quantised by; null without one.
        verdict: null if there was none.
        fidelity: null if it was not measured.
        others: packages to show beside this one.
        seconds: duration of each stage.
        peak_memory: of the process that wrote it, in bytes.
    """

    format_version: Annotated[Literal[1], IntegersOnly]
    masu_version: str
    package: str
    recipe: str | None
    verdict: VerdictRecord | None
    fidelity: Fidelity | None
    others: tuple[OtherPackage, ...]
    seconds: dict[str, Nonnegative]
    peak_memory: Bytes
    machine: Machine
    manifest: Sha256 | None = None

    def to_bytes(self) -> bytes:
        """ASCII JSON in the order of the fields."""
        text = json.dumps(self.model_dump(mode="json"), indent=1, allow_nan=False)
        return f"{text}\n".encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes, where: str = REPORT) -> Self:
        """Raises SchemaError, which names each place that is not of the format."""
        return validate_json(cls, data, where)


def manifest_hash(package: Path) -> Sha256 | None:
    """Hash of the package's manifest.json, by which a report says what it is about."""
    file = package / MANIFEST
    if not file.exists():
        return None
    return hashlib.sha256(read_regular(file, MAX_BYTES, error=SchemaError)).hexdigest()


def read_report(package: Path) -> Report | None:
    """The report of the package at this path; SchemaError if there is one but it is broken."""
    file = package / REPORT
    if not file.exists():
        return None
    return Report.from_bytes(read_regular(file, MAX_BYTES, error=SchemaError), str(file))
