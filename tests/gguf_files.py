"""GGUF files for tests, written from golden Hugging Face folders as llama.cpp's converter does.

Nothing here comes from the reader under test: names are the gguf library's, the order of query and
key rows is spelled out row by row, and the rotary factors follow Meta's code.
"""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import ml_dtypes
import numpy as np
from golden import GOLDEN

from masu.specs.container import Container

ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
    "gemma3_text": gguf.MODEL_ARCH.GEMMA3,
}
Edit = Callable[[gguf.GGUFWriter], None]


def hf_config(case: str) -> dict[str, Any]:
    return json.loads((GOLDEN / case / "hf" / "config.json").read_text())


def hf_tensors(case: str) -> dict[str, np.ndarray]:
    """Every tensor of a golden checkpoint, as bfloat16."""
    found = {}
    for path in sorted((GOLDEN / case / "hf").glob("*.safetensors")):
        with Container.open(path) as container:
            found |= {name: container.read(name) for name in container.tensors}
    return found


def write_gguf(
    path: Path,
    case: str,
    kind: str = "F32",
    *,
    edit: Edit | None = None,
    without: tuple[str, ...] = (),
    tokenizer: Edit | None = None,
) -> Path:
    """Write a golden checkpoint as GGUF, its matrices as `kind`, its vectors in float32.

    Args:
        edit: adds keys or tensors before the file is written.
        without: metadata keys that are left out again.
        tokenizer: writes the tokenizer's keys, instead of the golden tokenizer's.
    """
    config = hf_config(case)
    architecture = ARCHITECTURES[config["model_type"]]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[architecture])
    _add_config(writer, config)
    (tokenizer or _golden_tokenizer(case))(writer)
    names = gguf.get_tensor_name_map(architecture, config["num_hidden_layers"])
    for name, values in hf_tensors(case).items():
        stored = names.get_name(name, (".weight", ".bias"))
        assert stored is not None, name
        add_tensor(writer, stored, as_llama_cpp(name, values, config), kind)
    if config["model_type"] == "llama" and config["rope_parameters"]["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", meta_rope_factors(config))
    if edit is not None:
        edit(writer)
    for key in without:
        del writer.kv_data[0][key]
    _finish(writer)
    return path


def add_tensor(writer: gguf.GGUFWriter, name: str, values: np.ndarray, kind: str) -> None:
    quantisation = gguf.GGMLQuantizationType[kind if values.ndim > 1 else "F32"]
    data = gguf.quants.quantize(values.astype(np.float32), quantisation)
    writer.add_tensor(name, data, raw_dtype=quantisation)


def as_llama_cpp(name: str, values: np.ndarray, config: Mapping[str, Any]) -> np.ndarray:
    """The values as llama.cpp's converter changes them."""
    if config["model_type"] == "llama" and ".q_proj." in name:
        return interleaved(values, config["num_attention_heads"])
    if config["model_type"] == "llama" and ".k_proj." in name:
        return interleaved(values, config["num_key_value_heads"])
    if config["model_type"] == "gemma3_text" and name.endswith("norm.weight"):
        return values.astype(np.float32) + 1
    return values


def interleaved(values: np.ndarray, heads: int) -> np.ndarray:
    """Rows x0, x1, ..., y0, y1, ... of each head as x0, y0, x1, y1, ..."""
    half = len(values) // heads // 2
    order = []
    for head in range(heads):
        for pair in range(half):
            first = head * 2 * half + pair
            order += [first, first + half]
    return values[order]


def meta_rope_factors(config: Mapping[str, Any]) -> np.ndarray:
    """By how much each frequency is divided; Meta's `apply_scaling`, one frequency at a time."""
    rope = config["rope_parameters"]
    low = rope["original_max_position_embeddings"] / rope["low_freq_factor"]
    high = rope["original_max_position_embeddings"] / rope["high_freq_factor"]
    factors = []
    for pair in range(config["head_dim"] // 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (2 * pair / config["head_dim"])
        if wavelength < high:
            factors.append(1.0)
        elif wavelength > low:
            factors.append(rope["factor"])
        else:
            original = rope["original_max_position_embeddings"]
            smooth = (original / wavelength - rope["low_freq_factor"]) / (
                rope["high_freq_factor"] - rope["low_freq_factor"]
            )
            factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(factors, np.float32)


def decoded(values: np.ndarray, kind: str) -> np.ndarray:
    """What is left of values that went through a quantised type; rows do not touch each other."""
    if kind == "BF16":
        return values.astype(ml_dtypes.bfloat16)
    quantisation = gguf.GGMLQuantizationType[kind]
    stored = gguf.quants.quantize(values.astype(np.float32), quantisation)
    return stored if kind in ("F32", "F16") else gguf.quants.dequantize(stored, quantisation)


def _add_config(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_name("a test")
    writer.add_file_type(0)
    if "head_dim" in config:
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
    if config["model_type"] == "llama":
        writer.add_vocab_size(config["vocab_size"])
        writer.add_rope_dimension_count(config["head_dim"])
    _add_rope(writer, config["rope_parameters"])
    if config["model_type"] == "gemma3_text":
        writer.add_sliding_window(config["sliding_window"])
        writer.add_sliding_window_pattern(3)  # what the golden layer_types repeat
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])


def _add_rope(writer: gguf.GGUFWriter, parameters: dict[str, Any]) -> None:
    rope = parameters.get("full_attention", parameters)
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])


def _golden_tokenizer(case: str) -> Edit:
    def add(writer: gguf.GGUFWriter) -> None:
        config = hf_config(case)
        file = json.loads((GOLDEN / case / "hf" / "tokenizer.json").read_text())
        tokens = [f"[PAD{index}]" for index in range(config["vocab_size"])]
        kinds = [gguf.TokenType.UNUSED] * len(tokens)
        for token, index in file["model"]["vocab"].items():
            tokens[index], kinds[index] = token, gguf.TokenType.NORMAL
        for added in file["added_tokens"]:
            if added["id"] < len(tokens):
                special = (
                    gguf.TokenType.CONTROL if added["special"] else gguf.TokenType.USER_DEFINED
                )
                tokens[added["id"]], kinds[added["id"]] = added["content"], special
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("gpt-2")
        writer.add_token_list(tokens)
        writer.add_token_types(kinds)
        writer.add_token_merges([" ".join(pair) for pair in file["model"]["merges"]])
        writer.add_bos_token_id(config["bos_token_id"])
        first, *others = np.atleast_1d(config["eos_token_id"]).tolist()
        writer.add_eos_token_id(first)
        for other in others:
            writer.add_eot_token_id(other)
        writer.add_pad_token_id(config["pad_token_id"])
        writer.add_add_bos_token(False)

    return add


def _finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
