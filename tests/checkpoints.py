"""Checkpoints for tests: golden ones, edited copies of them, and random tiny ones."""

import dataclasses
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from golden import GOLDEN
from safetensors.numpy import load_file, save_file

from masu.converter.checkpoint import Checkpoint
from masu.converter.sources.folder import open_folder
from masu.specs.codec import ReasoningConfig
from masu.specs.models import ModelSpec

OPTIONAL_THINKING = ModelSpec(
    repo="golden",
    output_parser="think",
    end_of_thinking_tag="\n</think>",
    reasoning=ReasoningConfig(
        default_reasoning_effort="medium",
        field_name="enable_thinking",
        reasoning_effort_to_field_value={"medium": True, "no_reasoning": False},
    ),
)
"""What `lalamo_spec_options` of golden/index.json records for `qwen3` and `smollm3`."""


def golden_spec(case: str) -> ModelSpec:
    return OPTIONAL_THINKING if case in ("qwen3", "smollm3") else ModelSpec(repo=case)


def open_golden(case: str, config: str = "config.json") -> Checkpoint:
    """A golden checkpoint, its config in the dialect of transformers 5 or (`.v4`) 4."""
    checkpoint = open_folder(GOLDEN / case / "hf")
    values = json.loads((GOLDEN / case / "hf" / config).read_text())
    return dataclasses.replace(checkpoint, config=values)


def copy_golden(case: str, target: Path) -> Path:
    """A writable copy of a golden checkpoint's folder, without the second config."""
    shutil.copytree(GOLDEN / case / "hf", target)
    (target / "config.v4.json").unlink(missing_ok=True)
    return target


def edit_json(path: Path, change: Callable[[Any], Any]) -> None:
    """Rewrite a JSON file; `change` edits in place, or returns the new value."""
    value = json.loads(path.read_text())
    changed = change(value)
    path.write_text(json.dumps(value if changed is None else changed))


def edit_tensors(path: Path, change: Callable[[dict[str, np.ndarray]], None]) -> None:
    tensors = load_file(path)
    change(tensors)
    save_file({name: np.ascontiguousarray(t) for name, t in tensors.items()}, path)


def _head_of(config: Any) -> Any:
    """The class of transformers that gives logits for this config; text comes first."""
    from transformers import (
        AutoModelForCausalLM,
        AutoModelForImageTextToText,
        AutoModelForSequenceClassification,
    )

    heads = AutoModelForCausalLM, AutoModelForSequenceClassification, AutoModelForImageTextToText
    return next(head for head in heads if type(config) in head._model_mapping)


def random_checkpoint(config: Mapping[str, Any], target: Path, seed: int = 0) -> Any:
    """A transformers model of this config with random weights, norms and biases included; saved.

    So are buffers that a checkpoint stores (Gemma 4's layer scalars), around 1.
    The folder gets the tokenizer of golden `llama`; the model is returned, float32, in eval mode.
    """
    import torch
    from transformers import AutoConfig

    torch.manual_seed(seed)
    settings = {**config, "pad_token_id": 0}
    settings.pop("model_type")
    made = AutoConfig.for_model(config["model_type"], **settings)
    model = _head_of(made).from_config(made, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            wide = 0.5 if parameter.ndim < 2 else 0.3
            centre = 1.0 if name.endswith("norm.weight") and "gemma" not in made.model_type else 0.0
            parameter.normal_(centre, wide)
        for name, buffer in model.named_buffers():
            if name in model.state_dict():
                buffer.normal_(1.0, 0.3)
    model.save_pretrained(target)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(GOLDEN / "llama-odd-vocab" / "hf" / name, target / name)
    return model
