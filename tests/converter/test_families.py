"""Properties that every family file must have; nothing is listed here."""

import json
from pathlib import Path
from typing import Any

import pytest
from checkpoints import golden_spec, open_golden, random_checkpoint

from masu.converter.config import read_config
from masu.converter.convert import accept_config, plan_conversion
from masu.converter.families import family_names, load_family
from masu.converter.multimodal import language_config
from masu.converter.sources.folder import open_folder
from masu.specs.errors import ConfigError, UnknownFamily
from masu.specs.models import ModelSpec

FAMILIES = family_names()
GOLDEN_ONLY = {"llamba"}
"""Families that transformers does not have: golden data alone say what they compute."""

OWN = [name for name in FAMILIES if load_family(name).tiny]


@pytest.mark.parametrize("name", FAMILIES)
def test_file_name_is_the_model_type(name: str) -> None:
    family = load_family(name)
    assert family.tiny.get("model_type", name) == name
    known = family.tiny or family.text_config or name in GOLDEN_ONLY
    assert known, "a family has a tiny config, or wraps one that has"


def own_keys(name: str) -> dict[str, Any]:
    """The tiny config, without that of a tower around it."""
    family = load_family(name)
    return dict(language_config(family, family.tiny, "test"))


@pytest.mark.parametrize("name", OWN)
def test_an_unknown_key_is_refused_by_name(name: str) -> None:
    config = {**own_keys(name), "new_trick": 1, "model_type": name}
    with pytest.raises(ConfigError, match="new_trick"):
        accept_config(config, None, "test")


@pytest.mark.parametrize("name", OWN)
def test_every_key_of_a_saved_config_is_accounted_for(name: str) -> None:
    from transformers import AutoConfig

    tiny = {k: v for k, v in load_family(name).tiny.items() if k != "model_type"}
    saved = AutoConfig.for_model(name, **tiny).get_text_config().to_json_string(use_diff=False)
    config = json.loads(saved)
    _, account = read_config(load_family(name).config, config, "test")
    assert {*account.used, *account.inert} == config.keys()


@pytest.mark.parametrize("name", OWN)
def test_defaults_are_those_of_transformers(name: str) -> None:
    from transformers import AutoConfig

    reference = AutoConfig.for_model(name).get_text_config()
    schema = load_family(name).config
    derived = {
        "layer_types", "no_rope_layers", "head_dim", "num_key_value_heads", "full_attn_idxs",
        "per_layer_config", "layer_rope_theta", "id2label", "num_labels", "mlp_only_layers",
        "mamba_d_head", "mlp_multipliers", "ssm_multipliers", "layers_block_type",
        "hybrid_override_pattern",
    }  # fmt: skip
    renamed = {"sliding_window_pattern": "_sliding_window_pattern"}
    for key, field in schema.model_fields.items():
        if field.is_required() or key in derived or key == "rope_parameters":
            continue
        # transformers clears the window where it is turned off; masu reads the switch itself
        if key == "sliding_window" and "use_sliding_window" in schema.model_fields:
            continue
        expected = getattr(reference, renamed.get(key, key), field.default)
        assert field.default == expected, key


@pytest.mark.parametrize("name", OWN)
def test_tiny_is_small_and_square(name: str) -> None:
    """Hidden size equal to intermediate size: a transposed matrix keeps its shape and is caught."""
    config, _ = read_config(load_family(name).config, own_keys(name), "test")
    assert config.hidden_size == config.intermediate_size
    assert config.num_hidden_layers <= 4


@pytest.mark.parametrize("name", OWN)
def test_a_checkpoint_saved_by_transformers_5_converts(name: str, tmp_path: Path) -> None:
    random_checkpoint(load_family(name).tiny, tmp_path / "hf")
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["transformers_version"].startswith("5.")
    plan = plan_conversion(open_folder(tmp_path / "hf"), ModelSpec(repo=name), dtype="F32")
    assert plan.family == name
    assert set(plan.rounded.values()) <= {("F32", "F32")}, "only folded weights are rounded"


def test_an_unknown_family_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UnknownFamily, match="lama3") as caught:
        load_family("lama3")
    assert "llama" in str(caught.value.hint)


@pytest.mark.parametrize("case", ["gemma3-vlm", "muse_glimmer", "llama"])
def test_the_ledger_has_every_key_of_the_whole_config(case: str) -> None:
    checkpoint = open_golden(case)
    entries = plan_conversion(checkpoint, golden_spec(case), dtype="BF16").ledger.config_keys
    inner = checkpoint.config.get("text_config", {})
    outer = {f"{key} (outer)" for key in checkpoint.config if key != "text_config"}
    assert (
        {*inner, *outer} <= entries.keys() if inner else checkpoint.config.keys() <= entries.keys()
    )
    towers = [key for key, entry in entries.items() if entry.status == "left_out"]
    assert ("vision_config (outer)" in towers) == bool(inner)
    assert entries["hidden_size"].status == entries["vocab_size"].status == "used"
