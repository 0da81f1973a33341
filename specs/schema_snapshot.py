"""The package format as JSON Schema; its committed copy makes any change of it a visible diff."""

from typing import Any

from masu.specs.fingerprints import FINGERPRINTS, Fingerprints
from masu.specs.formats import WEIGHT_FORMAT
from masu.specs.manifest import Manifest
from masu.specs.model import MODEL_CONFIG
from masu.specs.report import REPORT, Report
from masu.specs.signature import Signature

SNAPSHOT = "package.schema.json"
"""The committed copy, beside this file."""

PROSE = ("title", "description")
"""Keywords that repeat Python names and docstrings: better words are no change of the format."""


def schema() -> dict[str, Any]:
    """One JSON Schema for each kind of JSON text in a package, by where it stands."""
    return {
        "config.json": _without_prose(MODEL_CONFIG.json_schema()),
        "model.safetensors: <matrix>.spec": _without_prose(WEIGHT_FORMAT.json_schema()),
        "manifest.json": _without_prose(Manifest.model_json_schema()),
        FINGERPRINTS: _without_prose(Fingerprints.model_json_schema()),
        REPORT: _without_prose(Report.model_json_schema()),
        "signature.json": _without_prose(Signature.model_json_schema()),
    }


def _without_prose(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_prose(item) for item in value]
    if not isinstance(value, dict):
        return value
    # A field may be called "title": as a key of `properties` its value is a schema, not a text.
    return {
        key: _without_prose(item)
        for key, item in value.items()
        if key not in PROSE or not isinstance(item, str)
    }
