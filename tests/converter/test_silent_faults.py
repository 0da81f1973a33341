"""Checkpoints that a careless converter takes without a word: each is refused, or put right."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from checkpoints import copy_golden, edit_json, edit_tensors

import masu
from masu.verdict import _probe_ids

Q = "model.layers.0.self_attn.q_proj.weight"


def rejected(folder: Path, dtype: str = "bfloat16") -> None:
    with pytest.raises(masu.MasuError):
        masu.convert(folder, folder.parent / "out", dtype=dtype, verify=False)


def test_a_checkpoint_is_never_replaced(tmp_path: Path) -> None:
    source = copy_golden("llama", tmp_path / "hf")
    names = {p.name for p in source.iterdir()}
    with pytest.raises(masu.MasuError):
        masu.convert(source, source, overwrite=True, verify=False)
    assert {p.name for p in source.iterdir()} == names


def test_keys_beside_the_text_config_are_refused(tmp_path: Path) -> None:
    source = copy_golden("gemma3-vlm", tmp_path / "hf")
    edit_json(source / "config.json", lambda c: c.update(quantization_config={"bits": 4}))
    rejected(source)


def test_two_original_lengths_are_refused(tmp_path: Path) -> None:
    source = copy_golden("phi3", tmp_path / "hf")
    edit_json(source / "config.json", lambda c: c.update(original_max_position_embeddings=16))
    rejected(source)


def test_contradicting_rope_types(tmp_path: Path) -> None:
    source = copy_golden("llama", tmp_path / "hf")
    scaling = {"type": "yarn", "rope_type": "linear", "factor": 2.0}
    edit_json(
        source / "config.json", lambda c: c.update(rope_parameters=None, rope_scaling=scaling)
    )
    rejected(source)


def test_float16_overflow(tmp_path: Path) -> None:
    source = copy_golden("llama", tmp_path / "hf")

    def large(tensors: dict[str, np.ndarray]) -> None:
        tensors["model.embed_tokens.weight"][300] = ml_dtypes.bfloat16(70000)

    edit_tensors(source / "model.safetensors", large)
    rejected(source, dtype="float16")


def test_parts_of_two_half_types(tmp_path: Path) -> None:
    source = copy_golden("llama", tmp_path / "hf")
    edit_tensors(source / "model.safetensors", lambda t: t.update({Q: t[Q].astype(np.float16)}))
    masu.convert(source, tmp_path / "out", verify=False)


def test_the_probe_is_not_truncated(tmp_path: Path) -> None:
    source = copy_golden("llama", tmp_path / "hf")
    cut = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    edit_json(source / "tokenizer.json", lambda t: t.update(truncation=cut))
    assert len(_probe_ids(masu.plan(source).conversion)) > 2


def test_an_end_token_that_is_none_is_refused(tmp_path: Path) -> None:
    source = copy_golden("llama", tmp_path / "hf")
    edit_json(source / "tokenizer_config.json", lambda c: c.update(eos_token="<nope>"))
    rejected(source)


@pytest.mark.parametrize(
    "change",
    [
        {"num_attention_heads": 0},
        {"vocab_size": 0},
        {"head_dim": 0},
        {"rms_norm_eps": -1.0},
        {"rms_norm_eps": 0.0},
        {"rms_norm_eps": 1e10},
    ],
    ids=str,
)
def test_sizes_that_cannot_be(tmp_path: Path, change: dict[str, float]) -> None:
    source = copy_golden("llama", tmp_path / "hf")
    edit_json(source / "config.json", lambda c: c.update(change))
    rejected(source)


@pytest.mark.parametrize("entry", [{"x": {"content": "<a>"}}, {"322": "<a>"}, {"322": {}}], ids=str)
def test_malformed_added_tokens(tmp_path: Path, entry: dict[str, object]) -> None:
    source = copy_golden("llama", tmp_path / "hf")
    edit_json(source / "tokenizer_config.json", lambda c: c.update(added_tokens_decoder=entry))
    rejected(source)


def test_true_is_not_a_neutral_value(tmp_path: Path) -> None:
    source = copy_golden("llama", tmp_path / "hf")
    edit_json(source / "generation_config.json", lambda g: g.update(renormalize_logits=True))
    files = masu.plan(source).conversion.ledger.files
    assert files["generation_config.json: renormalize_logits"].status == "left_out"


def test_a_failed_verdict_leaves_no_folder(tmp_path: Path) -> None:
    source = copy_golden("llama", tmp_path / "hf")
    edit_tensors(source / "model.safetensors", lambda t: t.update({Q: np.full_like(t[Q], np.nan)}))
    with pytest.raises(masu.MasuError):
        masu.convert(source, tmp_path / "new" / "out")
    assert not (tmp_path / "new").exists()


def test_a_stop_id_that_no_row_stands_for_is_noted(tmp_path: Path) -> None:
    source = copy_golden("llama", tmp_path / "hf")
    edit_json(source / "generation_config.json", lambda g: g.update(eos_token_id=[1, 320]))
    said = "stop token 320 of generation_config.json never comes: the model has 320 rows"
    assert said in masu.plan(source).conversion.ledger.notes
