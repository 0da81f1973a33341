"""The config.json that a GGUF file's model has on the Hugging Face Hub, per architecture."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from masu.converter.sources.gguf_keys import ArchitectureKeys, Gemma3Keys
from masu.converter.sources.gguf_rope import rope_parameters
from masu.converter.sources.gguf_table import GGUFTensor
from masu.specs.errors import ConfigError, TensorMismatch

Tensors: TypeAlias = Mapping[str, GGUFTensor]
ConfigBuilder: TypeAlias = Callable[[Any, Tensors, np.ndarray | None], dict[str, Any]]
"""From the architecture's keys, the table of tensors and the rotary factors, to config.json."""

_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def llama_config(
    keys: ArchitectureKeys, tensors: Tensors, factors: np.ndarray | None
) -> dict[str, Any]:
    shared = _decoder(keys, tensors)
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        **shared,
        "hidden_act": "silu",
        "rope_parameters": rope_parameters(keys, shared["head_dim"], factors),
        "attention_bias": "blk.0.attn_q.bias" in tensors,
        "mlp_bias": "blk.0.ffn_gate.bias" in tensors,
    }


def qwen2_config(
    keys: ArchitectureKeys, tensors: Tensors, factors: np.ndarray | None
) -> dict[str, Any]:
    shared = _decoder(keys, tensors)
    # transformers' Qwen2 has no key for it.
    head_dim = shared.pop("head_dim")
    if head_dim * keys.head_count != keys.embedding_length:
        raise ConfigError(
            f"qwen2.attention.key_length: expected qwen2.embedding_length / "
            f"qwen2.attention.head_count, found {head_dim}"
        )
    return {
        "model_type": "qwen2",
        "architectures": ["Qwen2ForCausalLM"],
        **shared,
        "hidden_act": "silu",
        "rope_parameters": rope_parameters(keys, head_dim, factors),
        "use_sliding_window": False,
        "sliding_window": None,
    }


def qwen3_config(
    keys: ArchitectureKeys, tensors: Tensors, factors: np.ndarray | None
) -> dict[str, Any]:
    shared = _decoder(keys, tensors)
    return {
        "model_type": "qwen3",
        "architectures": ["Qwen3ForCausalLM"],
        **shared,
        "hidden_act": "silu",
        "rope_parameters": rope_parameters(keys, shared["head_dim"], factors),
        "attention_bias": "blk.0.attn_q.bias" in tensors,
        "use_sliding_window": False,
        "sliding_window": None,
    }


def gemma3_config(keys: Gemma3Keys, tensors: Tensors, factors: np.ndarray | None) -> dict[str, Any]:
    shared = _decoder(keys, tensors)
    return {
        "model_type": "gemma3_text",
        "architectures": ["Gemma3ForCausalLM"],
        **shared,
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": _gemma3_scalar(keys, shared["head_dim"]),
        "layer_types": _gemma3_layers(keys),
        "sliding_window": keys.sliding_window,
        "rope_parameters": {
            "full_attention": rope_parameters(keys, shared["head_dim"], factors),
            "sliding_attention": {"rope_type": "default", "rope_theta": keys.rope_base_sliding},
        },
        "attention_bias": False,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": keys.final_logit_softcapping,
        "use_bidirectional_attention": False,
    }


def _gemma3_scalar(keys: Gemma3Keys, head_dim: int) -> int:
    """llama.cpp's rule; no key holds it. Only the 27B model, which has 62 layers, differs."""
    return keys.embedding_length // keys.head_count if keys.block_count == 62 else head_dim


def _gemma3_layers(keys: Gemma3Keys) -> list[str]:
    pattern, count = keys.window_pattern, keys.block_count
    if isinstance(pattern, np.ndarray):
        if pattern.shape != (count,) or pattern.dtype != np.bool_:
            raise ConfigError(
                f"gemma3.attention.sliding_window_pattern: expected a number or {count} flags, "
                f"found {len(pattern)} of type {pattern.dtype}"
            )
        slides = pattern.tolist()
    else:
        slides = [layer % pattern < pattern - 1 for layer in range(count)]
    return [
        "sliding_attention" if sliding and keys.sliding_window else "full_attention"
        for sliding in slides
    ]


def _decoder(keys: ArchitectureKeys, tensors: Tensors) -> dict[str, Any]:
    """What all decoders say with the same keys."""
    table = tensors.get("token_embd.weight")
    if table is None:
        raise TensorMismatch(
            "token_embd.weight: expected the token embedding, found no such tensor"
        )
    head_dim = keys.key_length or keys.embedding_length // keys.head_count
    problems = [
        f"{name}: expected {expected}, {what}, found {found}"
        for name, found, expected, what in (
            ("vocab_size", keys.vocab_size, table.shape[0], "the rows of token_embd.weight"),
            ("attention.value_length", keys.value_length, head_dim, "the length of a key"),
            ("rope.dimension_count", keys.rope_dimensions, head_dim, "the length of a key"),
        )
        if found not in (None, expected)
    ]
    if problems:
        raise ConfigError("the metadata contradict each other:", problems=problems)
    return {
        "vocab_size": table.shape[0],
        "hidden_size": keys.embedding_length,
        "intermediate_size": keys.feed_forward_length,
        "num_hidden_layers": keys.block_count,
        "num_attention_heads": keys.head_count,
        "num_key_value_heads": keys.head_count_kv or keys.head_count,
        "head_dim": head_dim,
        "max_position_embeddings": keys.context_length,
        "rms_norm_eps": keys.rms_epsilon,
        # llama.cpp's rule: a file without an output matrix uses the embedding for it.
        "tie_word_embeddings": "output.weight" not in tensors,
        **_dtype(tensors),
    }


def _dtype(tensors: Tensors) -> dict[str, str]:
    """The type of the matrices, where they are plain and agree; norms are float32 in every file."""
    kinds = {tensor.kind.name for tensor in tensors.values() if len(tensor.shape) > 1}
    only = kinds.pop() if len(kinds) == 1 else ""
    return {"dtype": _DTYPES[only]} if only in _DTYPES else {}
