"""The package format is an interface: a change to it must show up in review."""

import json
from pathlib import Path

from masu.specs.schema_snapshot import SNAPSHOT, schema

REFRESH = "the package format changed; if that is meant: masu schema > specs/package.schema.json"


def test_schema_is_the_reviewed_one() -> None:
    path = Path(__file__).parents[2] / "specs" / SNAPSHOT
    assert json.loads(path.read_text(encoding="utf-8")) == schema(), REFRESH


def test_schema_covers_every_json_text_of_a_package() -> None:
    """The names of a few things deep inside, so that an empty snapshot cannot pass."""
    parts = {name: json.dumps(part) for name, part in schema().items()}
    assert '"sliding_window_size"' in parts["config.json"]
    assert '"incoherence_block_size"' in parts["model.safetensors: <matrix>.spec"]
    assert '"left_out"' in parts["manifest.json"]


def test_words_are_no_part_of_the_format() -> None:
    assert '"description": "' not in json.dumps(schema())
