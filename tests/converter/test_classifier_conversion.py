"""What a classifier's conversion does with text and files, and that its verdict catches faults."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import copy_golden, edit_json, golden_spec
from golden import GOLDEN
from package_copies import edit_weights

import masu.pipeline
from masu.converter.convert import ConversionPlan, plan_conversion
from masu.converter.sources.folder import open_folder
from masu.runtime.classifier import load
from masu.specs.errors import VerdictError

SOURCE = GOLDEN / "modernbert" / "hf"


def plan(folder: Path) -> ConversionPlan:
    return plan_conversion(open_folder(folder), golden_spec("modernbert"), dtype="BF16")


def with_special_tokens(folder: Path) -> None:
    """As tokenizers of encoders have it: every text between a begin and an end token."""
    processor = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<bos>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "<eos>", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {
            "<bos>": {"id": "<bos>", "ids": [0], "tokens": ["<bos>"]},
            "<eos>": {"id": "<eos>", "ids": [1], "tokens": ["<eos>"]},
        },
    }
    edit_json(folder / "tokenizer.json", lambda t: t.update(post_processor=processor))


def test_without_a_template_a_text_has_the_ids_of_its_tokenizer(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    source = copy_golden("modernbert", tmp_path / "hf")
    (source / "chat_template.jinja").unlink()
    with_special_tokens(source)
    masu.pipeline.convert(source, tmp_path / "package")
    found = load(tmp_path / "package", backend="numpy").encode("is this safe?")
    assert found == AutoTokenizer.from_pretrained(source)("is this safe?").input_ids
    assert (found[0], found[-1]) == (0, 1)


def test_the_ledger_knows_nothing_of_generation(tmp_path: Path) -> None:
    source = copy_golden("modernbert", tmp_path / "hf")
    (source / "generation_config.json").write_text(json.dumps({"temperature": 0.5}))
    ledger = plan(source).ledger
    entry = ledger.files["generation_config.json"]
    assert (entry.status, entry.reason) == ("inert", "a classifier generates nothing")
    assert not [name for name in ledger.files if name.startswith("generation_config.json:")]
    assert not [note for note in ledger.notes if "stop token" in note]
    assert ledger.config_keys["id2label"].status == "used"
    assert "temperature" not in plan(source).config.model_dump_json()


def test_a_config_without_labels_has_two(tmp_path: Path) -> None:
    """As in transformers; here the readout has five rows, and that is an error."""
    source = copy_golden("modernbert", tmp_path / "hf")
    edit_json(source / "config.json", lambda config: (config.pop("id2label"), None)[1])
    with pytest.raises(Exception, match=r"readout.biases: expected \[2\], found \[5\]"):
        plan(source)


def test_an_honest_conversion_passes(tmp_path: Path) -> None:
    verdict = masu.pipeline.convert(SOURCE, tmp_path / "package").verdict
    assert verdict is not None
    assert verdict.passed
    assert verdict.error < verdict.bound / 10


HEAD = "classifier.prediction_head"
LAYER = "classifier.transformer.layers.2"


def two_per_cent(name: str) -> Callable[[Path], None]:
    def edit(weights: Any) -> None:
        values = (np.frombuffer(weights.data[name], "<u2").astype(np.uint32) << 16).view(np.float32)
        scaled = (values * np.float32(1.02)).astype(np.float32).view(np.uint32)
        weights.data[name] = (scaled >> 16).astype("<u2").tobytes()

    return lambda folder: edit_weights(folder, edit)


@pytest.mark.parametrize(
    "name",
    [
        f"{HEAD}.dense.weights.weights",
        f"{HEAD}.readout.biases",
        f"{LAYER}.mlp.down_projection.weights.weights",
        f"{LAYER}.mixer.qkvg_projection.weights.weights",
    ],
)
def test_two_per_cent_in_one_tensor_fail(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = masu.pipeline.write_package

    def damaged(folder: Path, *args: Any, **kwargs: Any) -> Any:
        manifest = write(folder, *args, **kwargs)
        two_per_cent(name)(folder)
        return manifest

    monkeypatch.setattr(masu.pipeline, "write_package", damaged)
    with pytest.raises(VerdictError, match="does not compute"):
        masu.pipeline.convert(SOURCE, tmp_path / "package")
