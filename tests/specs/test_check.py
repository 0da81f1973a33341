"""`check_package` finds all that is wrong in one go, and is never stopped by what it finds."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from golden import ENGINE_CASES, GOLDEN
from package_copies import (
    WEIGHTS,
    Weights,
    add_manifest,
    copy_package,
    edit_config,
    edit_weights,
    make_manifest,
)

from masu.specs.check import Finding, check_package
from masu.specs.errors import NotAPackage

CASE = "llama-tied"
UP = "decoder.transformer.layers.0.mlp.up_projection.weights"
NO_MANIFEST = Finding("note", "manifest.json", "there is none, so no hash was checked")

TOO_MANY_TOKENS = "token '<|tool|>' has id 321; the model's vocabulary ends at 319"
STOPS_BEYOND = "generation_config.stop_token_ids: {} can never appear: the vocabulary ends at 319"


def known_remarks(case: str) -> list[str]:
    """Two oddities that golden packages have: harmless, and said."""
    config = json.loads((GOLDEN / case / "engine/config.json").read_text())
    if case == "llamba":  # the family's fixed stop ids, whatever the vocabulary
        return [STOPS_BEYOND.format(token) for token in (128001, 128008, 128009)]
    tokens = json.loads((GOLDEN / case / "engine/tokenizer.json").read_text())["added_tokens"]
    is_over = any(token["id"] >= vocabulary(config) for token in tokens)
    return [TOO_MANY_TOKENS] if is_over else []  # tokens added beyond the embedding table


def vocabulary(config: Any) -> int:
    return config.get("decoder_config", config.get("classifier_config"))["vocab_size"]


@pytest.mark.parametrize("case", ENGINE_CASES)
def test_golden_packages(case: str) -> None:
    findings = check_package(GOLDEN / case / "engine")
    assert NO_MANIFEST in findings
    assert not NO_MANIFEST.is_problem
    assert not [finding for finding in findings if finding.is_problem]
    remarks = [finding.message for finding in findings if finding != NO_MANIFEST]
    assert remarks == known_remarks(case)


@pytest.fixture(name="folder")
def package_with_manifest(tmp_path: Path) -> Path:
    folder = copy_package(CASE, tmp_path)
    add_manifest(folder)
    return folder


def problems(folder: Path) -> list[tuple[str, str, str]]:
    findings = check_package(folder)
    return [(f.kind, f.where, f.message) for f in findings if f.is_problem]


def only(folder: Path, kind: str) -> list[tuple[str, str]]:
    return [(where, message) for found, where, message in problems(folder) if found == kind]


def test_a_whole_package_has_no_findings(folder: Path) -> None:
    assert check_package(folder) == []


# Integrity


def test_tampered_byte_names_the_tensor(folder: Path) -> None:
    def flip(weights: Weights) -> None:
        data = bytearray(weights.data[f"{UP}.weights"])
        data[7] ^= 1
        weights.data[f"{UP}.weights"] = bytes(data)

    edit_weights(folder, lambda weights: None)  # one layout of the header before and after
    add_manifest(folder)
    edit_weights(folder, flip)
    message = f"{UP}.weights: its bytes are not those written"
    assert problems(folder) == [("integrity", WEIGHTS, message)]


def test_a_changed_header_is_found_although_every_array_is_as_written(folder: Path) -> None:
    edit_weights(folder, lambda weights: None)
    add_manifest(folder)
    raw = (folder / WEIGHTS).read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    padded = raw[8 : 8 + length] + b" " * 64
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(padded)) + padded + raw[8 + length :])
    [(kind, where, message)] = problems(folder)
    assert (kind, where) == ("integrity", WEIGHTS)
    assert message.startswith("model.safetensors: header: sha256 is ")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_tampered_text_file(folder: Path, name: str) -> None:
    """A space at the end changes nothing that is read, and still is not what was written."""
    with (folder / name).open("a") as file:
        file.write(" ")
    [(kind, where, message)] = problems(folder)
    assert (kind, where) == ("integrity", name)
    assert "the manifest has" in message


def test_manifest_that_knows_other_tensors(folder: Path) -> None:
    tensors = make_manifest(folder).tensors
    name = f"{UP}.weights"
    renamed = {key: value for key, value in tensors.items() if key != name} | {"x": "0" * 64}
    add_manifest(folder, tensors=renamed)
    assert problems(folder) == [
        ("integrity", WEIGHTS, f"{name}: is in the file but not in the manifest"),
        ("integrity", WEIGHTS, "x: is in the manifest but not in the file"),
    ]


def test_manifest_that_knows_other_files(folder: Path) -> None:
    files = make_manifest(folder).files
    add_manifest(folder, files={k: v for k, v in files.items() if k != "config.json"})
    message = "is in the folder but not in the manifest"
    assert problems(folder) == [("integrity", "config.json", message)]


def test_manifest_of_another_dtype_and_format(folder: Path) -> None:
    formats = make_manifest(folder).formats
    add_manifest(folder, dtype="F16", formats={**formats, UP: "{}"})
    dtype, format_ = problems(folder)
    assert dtype == (
        "integrity",
        "manifest.json",
        "dtype: the manifest has F16, the tensors are BF16",
    )
    assert format_[2].startswith(f"formats: {UP}: the manifest has {{}}, the package ")


# Text

CONFIG_FAULTS: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "banned id beyond the vocabulary": (
        lambda config: config["generation_config"].update(banned_tokens=[999]),
        "tokenizer",
        "generation_config.banned_tokens: expected ids below 384, found 999",
    ),
    "unknown end token": (
        lambda config: config["token_codec_config"].update(eos_token="<|nope|>"),
        "tokenizer",
        "token_codec_config.eos_token: '<|nope|>' is not a token of tokenizer.json",
    ),
    "unknown begin token": (
        lambda config: config["token_codec_config"].update(bos_token="<|nope|>"),
        "tokenizer",
        "token_codec_config.bos_token: '<|nope|>' is not a token of tokenizer.json",
    ),
    "template": (
        lambda config: config["token_codec_config"].update(prompt_template="{% if x %}"),
        "template",
        "token_codec_config.prompt_template: the chat template does not compile: syntax error",
    ),
    "output parser": (
        lambda config: config["token_codec_config"].update(output_parser_regex="(?P<response>"),
        "template",
        "token_codec_config.output_parser_regex: output_parser_regex is not a pattern: missing )",
    ),
    "output parser with groups that mean nothing": (
        lambda config: config["token_codec_config"].update(output_parser_regex="(?P<answer>.*)"),
        "template",
        "token_codec_config.output_parser_regex: output_parser_regex: expected the group",
    ),
    "output parser beyond what can be compiled": (
        lambda config: config["token_codec_config"].update(output_parser_regex="(" * 5000),
        "template",
        "token_codec_config.output_parser_regex: ",
    ),
}


@pytest.mark.parametrize("fault", CONFIG_FAULTS)
def test_broken_text_side(tmp_path: Path, fault: str) -> None:
    edit, kind, message = CONFIG_FAULTS[fault]
    folder = copy_package(CASE, tmp_path)
    edit_config(folder, edit)
    [(found_kind, where, found)] = problems(folder)
    assert (found_kind, where) == (kind, "config.json")
    assert found.startswith(message)


def test_a_stop_id_beyond_the_vocabulary_is_said_and_harmless(tmp_path: Path) -> None:
    folder = copy_package(CASE, tmp_path)
    edit_config(folder, lambda c: c["generation_config"].update(stop_token_ids=[2, 384]))
    assert not problems(folder)
    assert any("384 can never appear" in found.message for found in check_package(folder))


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"model": {"type": "BPE", "vocab": 3}}'])
def test_broken_tokenizer(tmp_path: Path, text: str) -> None:
    folder = copy_package(CASE, tmp_path)
    (folder / "tokenizer.json").write_text(text)
    [(kind, where, message)] = problems(folder)
    assert (kind, where) == ("tokenizer", "tokenizer.json")
    assert str(folder / "tokenizer.json") in message


# Everything at once


def test_one_broken_part_does_not_hide_the_others(folder: Path) -> None:
    """Config, weights, tokenizer and manifest are each broken in a way of their own."""

    def edit(config: Any) -> None:
        config["decoder_config"]["transformer_config"]["zzz"] = 1

    edit_config(folder, edit)
    raw = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(raw[:-1])
    found = problems(folder)
    assert (
        "schema",
        "config.json",
        "decoder_config.transformer_config.zzz: unknown field",
    ) in found
    assert any(kind == "container" and where == WEIGHTS for kind, where, _ in found)
    assert {where for kind, where, _ in found if kind == "integrity"} == {"config.json"}


def test_tensors_and_text_are_both_reported(tmp_path: Path) -> None:
    folder = copy_package(CASE, tmp_path)
    edit_weights(folder, lambda weights: weights.drop(f"{UP}.weights"))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "manifest.json").write_text("{")
    assert {kind for kind, _, _ in problems(folder)} == {"tensors", "tokenizer", "schema"}
    assert only(folder, "tensors")[0][1].startswith(f"{UP}.weights: missing")


@pytest.mark.parametrize("length", [0, 7, 8, 100, 2000])
def test_any_truncation_is_a_finding(folder: Path, length: int) -> None:
    for name in (WEIGHTS, "config.json", "tokenizer.json", "manifest.json"):
        (folder / name).write_bytes((folder / name).read_bytes()[:length])
    assert {where for _, where, _ in problems(folder)} >= {WEIGHTS, "config.json", "manifest.json"}


def test_not_a_package(tmp_path: Path) -> None:
    with pytest.raises(NotAPackage):
        check_package(tmp_path)
