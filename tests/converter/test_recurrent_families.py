"""What the families with recurrent layers read, beyond their tiny configs and golden data."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import copy_golden, edit_json, edit_tensors, open_golden

from masu.converter.checkpoint import Checkpoint
from masu.converter.config import read_config
from masu.converter.convert import ConversionPlan, plan_conversion
from masu.converter.families import load_family
from masu.converter.grouped_rows import every_part, parts
from masu.converter.layer_kinds import hybrid_kinds, layer_kinds
from masu.converter.sources.folder import open_folder
from masu.specs.errors import ConfigError, TensorMismatch
from masu.specs.models import ModelSpec


def read(name: str, **changes: Any) -> Any:
    """The tiny config of a family with some keys changed; None takes a key away."""
    raw = json.loads(json.dumps({**load_family(name).tiny, **changes}))
    raw = {key: value for key, value in raw.items() if value is not None}
    return read_config(load_family(name).config, raw, "test")[0]


def plan(checkpoint: Checkpoint) -> ConversionPlan:
    return plan_conversion(checkpoint, ModelSpec(repo="test"), dtype="BF16")


def contents(planned: ConversionPlan) -> dict[str, bytes]:
    return {tensor.name: tensor.read(0, tensor.shape[0]).tobytes() for tensor in planned.stream}


# Rows of projections.


def test_the_same_part_of_every_group() -> None:
    assert every_part((2, 3), 0)((10, 4)) == ((0, 2), (5, 7))
    assert every_part((2, 3), 1)((10, 4)) == ((2, 5), (7, 10))
    assert every_part((2, 3), 1)((9, 4)) == ((2, 5), (7, 9))
    assert parts((2, 3, 1), (1, 0, 2))((6, 4)) == ((2, 5), (0, 2), (5, 6))


# Kinds of layers.


def test_kinds_are_the_list_s_or_the_rule_s() -> None:
    assert layer_kinds(None, ["a", "b"], ("a", "b")) == ("a", "b")
    assert layer_kinds(["b", "b"], ["a", "b"], ("a", "b")) == ("b", "b")
    assert hybrid_kinds(["mamba", "attention"], ["linear_attention"] * 2) == (
        "linear_attention",
        "full_attention",
    )


def test_every_kind_that_is_wrong_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        layer_kinds(["a", "c", "d"], ["a", "b"], ("a", "b"), "kinds")
    assert caught.value.problems == (
        "kinds[1]: expected one of a, b, found 'c'",
        "kinds[2]: expected one of a, b, found 'd'",
        "kinds: expected 2 names, one per layer, found 3",
    )


# LFM2.


@pytest.mark.parametrize("width", [64, 100, 12288])
@pytest.mark.parametrize("multiplier", [1.0, 1.1, 1.4])
@pytest.mark.parametrize("multiple", [16, 256])
def test_lfm2_widths_are_those_of_transformers(
    width: int, multiplier: float, multiple: int
) -> None:
    from transformers import Lfm2Config
    from transformers.models.lfm2.modeling_lfm2 import Lfm2MLP

    changes = {
        "intermediate_size": width,
        "block_auto_adjust_ff_dim": True,
        "block_ffn_dim_multiplier": multiplier,
        "block_multiple_of": multiple,
    }
    tiny = {**load_family("lfm2").tiny, **changes, "hidden_size": 4}
    tiny.pop("model_type")
    reference = Lfm2MLP(Lfm2Config(**tiny))
    assert read("lfm2", **changes).hidden_dim == reference.w1.out_features


def test_lfm2_reads_older_spellings() -> None:
    older = read(
        "lfm2", intermediate_size=None, block_ff_dim=128, norm_eps=None, block_norm_eps=1e-3
    )
    assert (older.intermediate_size, older.rms_norm_eps) == (128, 1e-3)


def test_two_spellings_that_disagree_are_refused() -> None:
    with pytest.raises(ConfigError, match="two spellings") as caught:
        read("lfm2", block_ff_dim=128, tie_embedding=False)
    assert set(caught.value.problems) == {
        "block_ff_dim is 128, and intermediate_size, which means the same, is not",
        "tie_embedding is False, and tie_word_embeddings, which means the same, is not",
    }


# Qwen3.5 and Qwen3-Next.


def test_drafting_layers_and_the_tower_are_left_out_by_name(tmp_path: Path) -> None:
    folder = copy_golden("qwen3_5", tmp_path / "hf")

    def add_drafts(tensors: dict[str, np.ndarray]) -> None:
        tensors["mtp.fc.weight"] = tensors["model.language_model.norm.weight"]

    edit_tensors(folder / "model.safetensors", add_drafts)
    planned = plan(open_folder(folder))
    left_out = {n for n, e in planned.ledger.tensors.items() if e.status == "left_out"}
    assert "mtp.fc.weight" in left_out
    assert {name for name in left_out if "visual" in name} == left_out - {"mtp.fc.weight"}
    assert contents(planned) == contents(plan(open_golden("qwen3_5")))


def packed(tensors: dict[str, np.ndarray]) -> None:
    """The experts of every layer in two tensors, as releases have them; gate rows come first."""
    moes = {name.partition("experts.0.")[0] for name in tensors if "experts.0." in name}
    for moe in moes:
        count = len({name for name in tensors if name.startswith(f"{moe}experts.")}) // 3
        halves = [
            [tensors.pop(f"{moe}experts.{e}.{half}_proj.weight") for e in range(count)]
            for half in ("gate", "up", "down")
        ]
        gate, up, down = map(np.stack, halves)
        tensors[f"{moe}experts.gate_up_proj"] = np.concatenate([gate, up], axis=1)
        tensors[f"{moe}experts.down_proj"] = down


@pytest.mark.parametrize("case", ["qwen3_5_moe", "qwen3_next"])
def test_packed_experts_are_those_that_stand_alone(case: str, tmp_path: Path) -> None:
    folder = copy_golden(case, tmp_path / "hf")
    edit_tensors(folder / "model.safetensors", packed)
    assert contents(plan(open_folder(folder))) == contents(plan(open_golden(case)))


def test_a_projection_with_a_head_too_few_is_refused(tmp_path: Path) -> None:
    folder = copy_golden("qwen3_next", tmp_path / "hf")
    name = "model.layers.0.linear_attn.in_proj_qkvz.weight"

    def cut(tensors: dict[str, np.ndarray]) -> None:
        tensors[name] = tensors[name][:-8]

    edit_tensors(folder / "model.safetensors", cut)
    with pytest.raises(TensorMismatch, match=r"in_proj.weights: expected \[264, 64\]"):
        plan(open_folder(folder))


# Mamba-2.


def test_llamba_s_table_has_padded_rows() -> None:
    raw = open_golden("llamba").config
    family = load_family("llamba")
    config, _ = read_config(family.config, {**raw, "vocab_size": 317}, "test")
    assert family.decoder(config).vocab_size == 320


@pytest.mark.parametrize(("key", "value"), [("bias", True), ("activation", "silu")])
def test_llamba_s_nested_keys_are_checked(key: str, value: Any) -> None:
    raw = dict(open_golden("llamba").config)
    raw["ssm_cfg"] = {**raw["ssm_cfg"], key: value}
    with pytest.raises(ConfigError, match=f"ssm_cfg.{key}"):
        read_config(load_family("llamba").config, raw, "test")


@pytest.mark.parametrize("name", ["falcon_h1", "granitemoehybrid"])
def test_an_infinite_limit_is_none(name: str) -> None:
    family, infinity = load_family(name), {"__float__": "Infinity"}
    for limit in ([0.0, infinity], None):
        decoder = family.decoder(read(name, time_step_limit=limit))
        mixer = decoder.transformer_config.layer_configs[0].model_dump()["mixer_config"]
        assert mixer.get("mamba2_config", mixer)["step_limits"] == (0.0, None)


def test_a_bare_word_for_infinity_is_read_too(tmp_path: Path) -> None:
    folder = copy_golden("falcon_h1", tmp_path / "hf")
    text = (folder / "config.json").read_text()
    bare = text.replace('{\n      "__float__": "Infinity"\n    }', "Infinity")
    assert bare != text
    (folder / "config.json").write_text(bare)
    planned, golden = plan(open_folder(folder)), plan(open_golden("falcon_h1"))
    assert planned.config == golden.config


def test_granite_reads_the_older_names_of_kinds(tmp_path: Path) -> None:
    folder = copy_golden("granitemoehybrid", tmp_path / "hf")

    def rename(config: dict[str, Any]) -> None:
        config["layers_block_type"] = ["mamba", "attention", "mamba"]
        del config["layer_types"]

    edit_json(folder / "config.json", rename)
    planned = plan(open_folder(folder))
    assert planned.config == plan(open_golden("granitemoehybrid")).config


def test_nemotron_reads_letters(tmp_path: Path) -> None:
    folder = copy_golden("nemotron_h", tmp_path / "hf")

    def spell(config: dict[str, Any]) -> None:
        config["hybrid_override_pattern"] = "ME*-"
        del config["layers_block_type"]

    edit_json(folder / "config.json", spell)
    assert plan(open_folder(folder)).config == plan(open_golden("nemotron_h")).config


def test_nemotron_refuses_unknown_letters_and_none() -> None:
    unclear = read("nemotron_h", layers_block_type=None, hybrid_override_pattern="MX")
    with pytest.raises(ConfigError, match="found 'X'"):
        load_family("nemotron_h").decoder(unclear)
    with pytest.raises(ConfigError, match="expected a list of kinds"):
        load_family("nemotron_h").decoder(read("nemotron_h", layers_block_type=None))


def test_falcon_s_rows_are_scaled_wherever_reading_starts() -> None:
    """Multipliers by row: read in pieces, the projection is what it is read at once."""
    for tensor in plan(open_golden("falcon_h1")).stream:
        if not tensor.name.endswith("in_projection.weights"):
            continue
        whole = tensor.read(0, tensor.shape[0])
        pieces = [tensor.read(at, min(at + 7, len(whole))) for at in range(0, len(whole), 7)]
        assert np.array_equal(np.concatenate(pieces), whole)
