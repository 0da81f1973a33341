"""manifest.json: strict to read, and the same bytes for the same facts."""

import json
from pathlib import Path
from typing import Any

import pytest
from golden import GOLDEN
from package_copies import make_manifest

from masu.specs.errors import SchemaError
from masu.specs.manifest import Ledger, LedgerEntry, Manifest, Source

FOLDER = GOLDEN / "llama/engine"
HASH = "0" * 64


@pytest.fixture(name="manifest", scope="module")
def full_manifest() -> Manifest:
    """One with something in every field."""
    used = LedgerEntry(status="used", into=("decoder.embedding.embedding",), reason=None)
    inert = LedgerEntry(status="inert", into=(), reason="training only")
    return make_manifest(
        FOLDER,
        source=Source(kind="hub", name="organisation/größe", revision="main", files={"a": HASH}),
        recipe={"rules": [{"match": "*", "bits": 4, "scale": 0.1}]},
        source_tensors={"model.embed_tokens.weight": HASH},
        ledger=Ledger(
            tensors={"model.embed_tokens.weight": used},
            config_keys={"initializer_range": inert},
            files={},
            notes=("rounded 3 tensors from F32 to BF16",),
        ),
    )


def test_round_trip(manifest: Manifest) -> None:
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest


def test_bytes_do_not_depend_on_the_order_of_insertion(manifest: Manifest) -> None:
    def reversed_maps(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: reversed_maps(item) for key, item in reversed(value.items())}
        return value

    values = reversed_maps(json.loads(manifest.to_bytes()))
    assert list(values["files"]) != sorted(values["files"])
    assert Manifest.from_bytes(json.dumps(values).encode()).to_bytes() == manifest.to_bytes()


def test_bytes_are_plain(manifest: Manifest) -> None:
    text = manifest.to_bytes().decode("ascii")
    assert text.endswith("}\n")
    assert text == json.dumps(json.loads(text), indent=1, sort_keys=True) + "\n"


BROKEN = [
    ({"format_version": 2}, "format_version: expected 1, found 2"),
    ({"format_version": True}, "format_version: expected 1, found true"),
    ({"dtype": "bfloat16"}, 'dtype: expected one of "F32", "F16", "BF16", found "bfloat16"'),
    (
        {"tensors": {"x": "ab"}},
        'tensors.x: expected a string of the form ^[0-9a-f]{64}$, found "ab"',
    ),
    ({"text_vectors": [1]}, "text_vectors[0]: expected an object, found 1"),
    ({"time": "now"}, "time: unknown field"),
    (
        {"files": {"../secret": HASH}},
        'files.../secret: expected one of "config.json", "model.safetensors: header", '
        '"tokenizer.json", found the key "../secret"',
    ),
    (
        {"source": {"kind": "url", "name": "", "revision": None, "files": {}}},
        'source.kind: expected one of "folder", "hub", "gguf", "pypi", found "url"',
    ),
]


@pytest.mark.parametrize(("changes", "problem"), BROKEN)
def test_broken_manifests_are_refused(
    manifest: Manifest, changes: dict[str, Any], problem: str
) -> None:
    values = json.loads(manifest.to_bytes()) | changes
    with pytest.raises(SchemaError, match="there/manifest") as caught:
        Manifest.from_bytes(json.dumps(values).encode(), "there/manifest.json")
    assert caught.value.problems == (problem,)


@pytest.mark.parametrize("status", ["inert", "left_out"])
@pytest.mark.parametrize("parts", [{"into": (), "reason": None}, {"into": ("x",), "reason": "y"}])
def test_what_is_not_used_needs_a_reason(status: Any, parts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{status} needs a reason"):
        LedgerEntry(status=status, **parts)


def test_nothing_of_the_machine_gets_in(tmp_path: Path) -> None:
    """A manifest of the same folder in another place is the same manifest."""
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    for file in FOLDER.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    assert make_manifest(copy).to_bytes() == make_manifest(FOLDER).to_bytes()
