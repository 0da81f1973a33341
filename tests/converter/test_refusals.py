"""Faulty checkpoints: refused before weights are written, all problems at once, with a twin.

Each case edits a copy of a golden checkpoint into a faulty one, and by one more change into a
benign twin. The faulty one must be refused with a message that names the place; the twin converts.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from checkpoints import copy_golden, edit_json, edit_tensors

import masu.pipeline
from masu.specs.errors import MasuError

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
LAST_SHARD = "model-00003-of-00003.safetensors"
LAYER = "model.layers.0"

Edit = Callable[[Path], object]


@dataclass(frozen=True)
class Case:
    """`says`: what the message must contain, every one of them."""

    fault: Edit
    says: tuple[str, ...]
    twin: Edit = field(default=lambda folder: None)
    golden: str = "llama"


def config(**changes: object) -> Edit:
    """Set keys of config.json."""
    return lambda folder: edit_json(folder / "config.json", lambda c: c.update(changes))


def rope(**changes: object) -> Edit:
    def change(values: dict) -> None:
        values["rope_parameters"].update(changes)

    return lambda folder: edit_json(folder / "config.json", change)


def text_config(**changes: object) -> Edit:
    """Set keys of the language model's part of a multimodal config.json."""
    return lambda folder: edit_json(
        folder / "config.json", lambda c: c["text_config"].update(changes)
    )


def without(*keys: str) -> Edit:
    def change(values: dict) -> None:
        for key in keys:
            values.pop(key)

    return lambda folder: edit_json(folder / "config.json", change)


def tensors(change: Callable[[dict[str, np.ndarray]], object], file: str = WEIGHTS) -> Edit:
    return lambda folder: edit_tensors(folder / file, lambda found: (change(found), None)[1])


def json_file(name: str, change: Callable[[dict], object]) -> Edit:
    return lambda folder: edit_json(folder / name, lambda value: (change(value), None)[1])


def both(*edits: Edit) -> Edit:
    def apply(folder: Path) -> None:
        for edit in edits:
            edit(folder)

    return apply


def copied_head(found: dict[str, np.ndarray]) -> None:
    found["lm_head.weight"] = found["model.embed_tokens.weight"]


CASES: dict[str, Case] = {
    "unknown key": Case(config(new_trick=1), ("new_trick", "1")),
    "two unknown keys and a bad value at once": Case(
        config(trick_a=1, trick_b=2, hidden_act="relu"), ("trick_a", "trick_b", "hidden_act")
    ),
    "unknown family": Case(config(model_type="lama"), ("lama", "llama")),
    "no model type": Case(without("model_type"), ("model_type", "None")),
    "unknown rope type": Case(rope(rope_type="spiral"), ("spiral", "llama3")),
    "dynamic rope": Case(rope(rope_type="dynamic"), ("dynamic",)),
    "rope parameter of another type": Case(rope(beta_fast=1.0), ("beta_fast",)),
    "rope attention factor of its own": Case(
        rope(attention_factor=2.0),
        ("attention_factor", "1.13863"),
        twin=rope(attention_factor=1.138629436111989),
        golden="qwen3-yarn",
    ),
    "two rope dialects that disagree": Case(
        config(rope_theta=1.0), ("rope_theta", "500000.0", "1.0"), twin=config(rope_theta=500000.0)
    ),
    "soft cap on a family without one": Case(config(attn_logit_softcapping=5.0), ("softcapping",)),
    "soft cap that transformers never applies": Case(
        config(attn_logit_softcapping=5.0),
        ("attn_logit_softcapping",),
        twin=config(attn_logit_softcapping=None),
        golden="gemma3-text",
    ),
    "bidirectional attention": Case(
        config(use_bidirectional_attention=True),
        ("use_bidirectional_attention",),
        twin=config(use_bidirectional_attention=False),
        golden="gemma2",
    ),
    "partial rotary where there is none": Case(
        rope(partial_rotary_factor=0.33),
        ("partial_rotary_factor",),
        golden="mistral",
        twin=rope(partial_rotary_factor=1.0),
    ),
    "wrong number of long factors": Case(
        rope(long_factor=[1.0, 2.0]), ("long_factor", "12", "2"), golden="phi3"
    ),
    "layer types of another length": Case(
        config(layer_types=["full_attention"]), ("layer_types", "3", "1"), golden="qwen3"
    ),
    "unknown layer type": Case(
        config(layer_types=["full_attention", "chunked_attention", "full_attention"]),
        ("layer_types[1]", "chunked_attention"),
        golden="qwen3",
    ),
    "windows without a size": Case(
        config(layer_types=["sliding_attention"] * 3, sliding_window=None),
        ("sliding_window",),
        golden="qwen3",
    ),
    "missing tensor": Case(
        tensors(lambda t: t.pop(f"{LAYER}.mlp.up_proj.weight")),
        ("missing", f"{LAYER}.mlp.up_proj.weight"),
    ),
    "two missing tensors and a stray one": Case(
        tensors(
            lambda t: (
                t.pop("model.norm.weight"),
                t.pop(f"{LAYER}.self_attn.k_proj.weight"),
                t.update({"stray": np.zeros(2, np.float32)}),
            )
        ),
        ("model.norm.weight", f"{LAYER}.self_attn.k_proj.weight", "unexpected  stray"),
    ),
    "a bias that the config does not announce": Case(
        tensors(lambda t: t.update({f"{LAYER}.self_attn.o_proj.bias": np.zeros(64, np.float32)})),
        ("out_projection.biases",),
    ),
    "misshaped tensor": Case(
        tensors(lambda t: t.update({"model.norm.weight": np.zeros(32, np.float32)})),
        ("output_norm", "[64]", "[32]"),
    ),
    "transposed tensor": Case(
        tensors(
            lambda t: t.update(
                {f"{LAYER}.mlp.down_proj.weight": t[f"{LAYER}.mlp.down_proj.weight"].T}
            )
        ),
        ("down_projection", "[64, 128]", "[128, 64]"),
    ),
    "integer weights": Case(
        tensors(lambda t: t.update({"model.norm.weight": np.zeros(64, np.int8)})),
        ("model.norm.weight", "I8"),
    ),
    "flag says tied, head differs": Case(
        config(tie_word_embeddings=True),
        ("tie_word_embeddings true", "lm_head.weight", "differs"),
        twin=both(config(tie_word_embeddings=True), tensors(copied_head)),
    ),
    "flag says untied, there is no head": Case(
        config(tie_word_embeddings=False),
        ("tie_word_embeddings false", "no output head"),
        golden="llama-tied",
    ),
    "vocabulary smaller than the tokenizer": Case(
        both(
            config(vocab_size=300),
            tensors(
                lambda t: t.update(
                    {n: t[n][:300] for n in ("lm_head.weight", "model.embed_tokens.weight")}
                )
            ),
        ),
        ("319", "300"),
    ),
    "vocabulary larger than the table": Case(config(vocab_size=400), ("[400, 64]", "[320, 64]")),
    "missing shard": Case(lambda f: (f / LAST_SHARD).unlink(), (LAST_SHARD,), golden="qwen2"),
    "stray shard": Case(
        lambda f: (f / "model-00004-of-00004.safetensors").write_bytes(
            (f / LAST_SHARD).read_bytes()
        ),
        ("model-00004-of-00004.safetensors",),
        golden="qwen2",
    ),
    "duplicate tensor over shards": Case(
        tensors(lambda t: t.update({"model.embed_tokens.weight": np.zeros(2)}), LAST_SHARD),
        ("model.embed_tokens.weight", LAST_SHARD),
        golden="qwen2",
    ),
    "index names a missing tensor": Case(
        json_file(INDEX, lambda i: i["weight_map"].update({"ghost.weight": LAST_SHARD})),
        ("ghost.weight",),
        golden="qwen2",
    ),
    "index escapes the folder": Case(
        json_file(INDEX, lambda i: i["weight_map"].update({"lm_head.weight": "../x.safetensors"})),
        ("../x.safetensors",),
        golden="qwen2",
    ),
    "no tokenizer": Case(lambda f: (f / "tokenizer.json").unlink(), ("tokenizer.json",)),
    "added tokens with two ids": Case(
        json_file(
            "tokenizer_config.json",
            lambda c: c["added_tokens_decoder"].update(
                {"7": {**c["added_tokens_decoder"]["5"], "content": "<think>"}}
            ),
        ),
        ("<think>", "4", "7"),
    ),
    "an id with two tokens": Case(
        json_file(
            "tokenizer_config.json",
            lambda c: c["added_tokens_decoder"]["4"].update(content="<reflect>"),
        ),
        ("<reflect>", "<think>", "4"),
    ),
    "a gap before an added token": Case(
        json_file(
            "tokenizer_config.json",
            lambda c: c["added_tokens_decoder"].update(
                {"400": {**c["added_tokens_decoder"]["321"], "content": "<late>"}}
            ),
        ),
        ("<late>", "400", "322"),
        twin=json_file(
            "tokenizer_config.json",
            lambda c: c["added_tokens_decoder"].update(
                {"322": {**c["added_tokens_decoder"]["321"], "content": "<late>"}}
            ),
        ),
    ),
    "named templates without a default": Case(
        both(
            lambda f: (f / "chat_template.jinja").unlink(),
            json_file(
                "tokenizer_config.json",
                lambda c: c.update(chat_template=[{"name": "tool_use", "template": "x"}]),
            ),
        ),
        ("chat_template", "tool_use"),
        twin=both(
            lambda f: (f / "chat_template.jinja").unlink(),
            json_file(
                "tokenizer_config.json",
                lambda c: c.update(
                    chat_template=[
                        {"name": "tool_use", "template": "x"},
                        {"name": "default", "template": "{{ messages[0].content }}"},
                    ]
                ),
            ),
        ),
    ),
    "template that does not parse": Case(
        lambda f: (f / "chat_template.jinja").write_text("{% for %}"), ("chat_template",)
    ),
    "stop id that is no id": Case(
        json_file("generation_config.json", lambda g: g.update(eos_token_id="<eos>")),
        ("eos_token_id", "<eos>"),
    ),
    "rope base below zero": Case(
        rope(rope_theta=-1.0), ("config.json", "rope_parameters.rope_theta", "found -1.0")
    ),
    "rope base zero": Case(rope(rope_theta=0.0), ("rope_parameters.rope_theta", "found 0.0")),
    "epsilon as large as what it is added to": Case(
        config(rms_norm_eps=1.0), ("rms_norm_eps", "less than 1", "found 1.0", "hint: config.json")
    ),
    "heads that do not share groups": Case(
        config(num_attention_heads=3),
        ("\n  num_attention_heads: expected a multiple of num_key_value_heads 2, found 3\n",),
    ),
    "temperature that is no number": Case(
        json_file("generation_config.json", lambda g: g.update(temperature="hot")),
        ("temperature", "hot"),
    ),
    "epsilon that values cannot have": Case(
        config(rms_norm_eps=1e-5), ("rms_norm_eps", "1e-06", "1e-05"), golden="gemma4-text"
    ),
    "mixture of experts without its sizes": Case(
        config(enable_moe_block=True, num_experts=4),
        ("enable_moe_block", "num_experts", "found 4, None and None"),
        golden="gemma4-text",
    ),
    "attention of images or of everything": Case(
        config(use_bidirectional_attention="all"),
        ("use_bidirectional_attention", "vision"),
        twin=config(use_bidirectional_attention="vision"),
        golden="gemma4-text",
    ),
    "last layer with a window": Case(
        config(layer_types=[*["full_attention"] * 3, *["sliding_attention"] * 3]),
        ("layer_types", "the last layer must be full_attention"),
        golden="gemma4-text",
    ),
    "shared caches without one to share": Case(
        config(num_kv_shared_layers=5),
        ("num_kv_shared_layers", "layer 2", "before 1"),
        golden="gemma4-text",
    ),
    "values missing, not shared": Case(
        tensors(lambda t: t.pop("model.layers.2.self_attn.v_proj.weight")),
        ("missing", "model.layers.2.self_attn.v_proj.weight"),
        twin=tensors(
            lambda t: t.update(
                {
                    "model.layers.3.self_attn.k_proj.weight": np.zeros((32, 64), np.float32),
                    "model.layers.3.self_attn.v_proj.weight": np.zeros((32, 64), np.float32),
                    "model.layers.3.self_attn.k_norm.weight": np.zeros(16, np.float32),
                }
            )
        ),
        golden="gemma4-text",
    ),
    "rotary base of one layer alone": Case(
        text_config(layer_rope_theta=[500000.0, 1e4, 0.0, 500000.0]),
        ("layer_rope_theta[1]", "500000.0", "10000.0"),
        twin=text_config(layer_rope_theta=[0.0, 500000.0, 0.0, 500000.0]),
        golden="muse_glimmer",
    ),
    "biases that the checkpoint lacks": Case(
        text_config(attention_bias=True), ("missing", "q_proj.bias"), golden="muse_glimmer"
    ),
    "labels with a gap": Case(
        config(id2label={"0": "a", "1": "b", "2": "c", "3": "d", "5": "e"}),
        ("id2label", "0 to 4"),
        golden="modernbert",
    ),
    "two labels of one name": Case(
        config(id2label={"0": "a", "1": "b", "2": "a", "3": "d", "4": "e"}),
        ("id2label", "every name once"),
        golden="modernbert",
    ),
    "another number of labels": Case(
        config(num_labels=4),
        ("num_labels", "5", "4"),
        twin=config(num_labels=5),
        golden="modernbert",
    ),
    "regression": Case(
        config(problem_type="regression"),
        ("problem_type", "regression"),
        twin=config(problem_type="multi_label_classification"),
        golden="modernbert",
    ),
    "key twice in config.json": Case(
        lambda f: (f / "config.json").write_text(
            (f / "config.json").read_text().replace("{", '{"vocab_size": 1,', 1)
        ),
        ("vocab_size",),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_faulty_checkpoint_is_refused_by_name(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    source = copy_golden(case.golden, tmp_path / "source")
    case.fault(source)
    with pytest.raises(MasuError) as caught:
        masu.pipeline.convert(source, tmp_path / "out" / "package")
    message = str(caught.value)
    assert [text for text in case.says if text not in message] == [], message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", CASES)
def test_its_benign_twin_is_planned(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    source = copy_golden(case.golden, tmp_path / "source")
    case.twin(source)
    assert masu.pipeline.plan(source, tmp_path / "package").bytes > 0


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 25
