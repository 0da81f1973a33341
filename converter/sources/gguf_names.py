"""What a GGUF file's tensors are called in a Hugging Face checkpoint: a table per architecture.

The names are those of llama.cpp's own converter (gguf.tensor_mapping), the changes of the values
those that it makes on the way; they are undone here. `{i}` stands for the number of a layer.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from masu.specs.errors import TensorMismatch


@dataclass(frozen=True)
class Interleaved:
    """Rows of each head as llama.cpp's rope wants them: (x0, y0, x1, y1, ...) for (x..., y...).

    Attributes:
        heads: the key of config.json that counts the heads.
    """

    name: str
    heads: str


@dataclass(frozen=True)
class PlusOne:
    """A norm that multiplies by 1 + weight, stored as the sum."""

    name: str


@dataclass(frozen=True)
class ReadByConfig:
    """Not a weight: a table that the config is rebuilt from."""


Row: TypeAlias = str | Interleaved | PlusOne | ReadByConfig
NameTable: TypeAlias = Mapping[str, Row]

ROPE_FACTORS = "rope_freqs.weight"
"""Divisors of the rotary frequencies, the form in which llama.cpp keeps Llama 3's scaling."""

_LAYER = "model.layers.{i}"
_QUERY, _KEY = "num_attention_heads", "num_key_value_heads"

# fmt: off
_SHARED: NameTable = {
    "token_embd.weight":             "model.embed_tokens.weight",
    "output_norm.weight":            "model.norm.weight",
    "output.weight":                 "lm_head.weight",
    "blk.{i}.attn_norm.weight":      f"{_LAYER}.input_layernorm.weight",
    "blk.{i}.attn_q.weight":         f"{_LAYER}.self_attn.q_proj.weight",
    "blk.{i}.attn_k.weight":         f"{_LAYER}.self_attn.k_proj.weight",
    "blk.{i}.attn_v.weight":         f"{_LAYER}.self_attn.v_proj.weight",
    "blk.{i}.attn_output.weight":    f"{_LAYER}.self_attn.o_proj.weight",
    "blk.{i}.ffn_norm.weight":       f"{_LAYER}.post_attention_layernorm.weight",
    "blk.{i}.ffn_gate.weight":       f"{_LAYER}.mlp.gate_proj.weight",
    "blk.{i}.ffn_up.weight":         f"{_LAYER}.mlp.up_proj.weight",
    "blk.{i}.ffn_down.weight":       f"{_LAYER}.mlp.down_proj.weight",
}
_QKV_BIASES: NameTable = {
    "blk.{i}.attn_q.bias":           f"{_LAYER}.self_attn.q_proj.bias",
    "blk.{i}.attn_k.bias":           f"{_LAYER}.self_attn.k_proj.bias",
    "blk.{i}.attn_v.bias":           f"{_LAYER}.self_attn.v_proj.bias",
}
_OUTPUT_BIAS: NameTable = {
    "blk.{i}.attn_output.bias":      f"{_LAYER}.self_attn.o_proj.bias",
}
_QUERY_KEY_NORMS: NameTable = {
    "blk.{i}.attn_q_norm.weight":    f"{_LAYER}.self_attn.q_norm.weight",
    "blk.{i}.attn_k_norm.weight":    f"{_LAYER}.self_attn.k_norm.weight",
}

LLAMA: NameTable = {
    **_SHARED, **_QKV_BIASES, **_OUTPUT_BIAS,
    "blk.{i}.attn_q.weight":         Interleaved(f"{_LAYER}.self_attn.q_proj.weight", _QUERY),
    "blk.{i}.attn_k.weight":         Interleaved(f"{_LAYER}.self_attn.k_proj.weight", _KEY),
    "blk.{i}.attn_q.bias":           Interleaved(f"{_LAYER}.self_attn.q_proj.bias", _QUERY),
    "blk.{i}.attn_k.bias":           Interleaved(f"{_LAYER}.self_attn.k_proj.bias", _KEY),
    "blk.{i}.ffn_gate.bias":         f"{_LAYER}.mlp.gate_proj.bias",
    "blk.{i}.ffn_up.bias":           f"{_LAYER}.mlp.up_proj.bias",
    "blk.{i}.ffn_down.bias":         f"{_LAYER}.mlp.down_proj.bias",
    ROPE_FACTORS:                    ReadByConfig(),
}
QWEN2: NameTable = {**_SHARED, **_QKV_BIASES}
QWEN3: NameTable = {**_SHARED, **_QKV_BIASES, **_OUTPUT_BIAS, **_QUERY_KEY_NORMS}
GEMMA3: NameTable = {
    **_SHARED,
    "output_norm.weight":            PlusOne("model.norm.weight"),
    "blk.{i}.attn_norm.weight":      PlusOne(f"{_LAYER}.input_layernorm.weight"),
    "blk.{i}.attn_q_norm.weight":    PlusOne(f"{_LAYER}.self_attn.q_norm.weight"),
    "blk.{i}.attn_k_norm.weight":    PlusOne(f"{_LAYER}.self_attn.k_norm.weight"),
    "blk.{i}.post_attention_norm.weight": PlusOne(f"{_LAYER}.post_attention_layernorm.weight"),
    "blk.{i}.ffn_norm.weight":       PlusOne(f"{_LAYER}.pre_feedforward_layernorm.weight"),
    "blk.{i}.post_ffw_norm.weight":  PlusOne(f"{_LAYER}.post_feedforward_layernorm.weight"),
}
# fmt: on

_BLOCK = re.compile(r"blk\.(0|[1-9][0-9]{0,5})\.")


def assign(names: Iterable[str], table: NameTable, where: str) -> dict[str, Row]:
    """The row of each tensor, with the number of its layer filled in.

    Raises:
        TensorMismatch: all tensors that the architecture does not have.
    """
    rows = {name: _row(name, table) for name in names}
    unknown = [f"{name}: expected no such tensor" for name, row in rows.items() if row is None]
    if unknown:
        raise TensorMismatch(
            f"{where} has tensors that its architecture does not have:",
            problems=unknown,
            hint="they may belong to a variant that is not supported, such as a mixture of experts",
        )
    return {name: row for name, row in rows.items() if row is not None}


def _row(name: str, table: NameTable) -> Row | None:
    match = _BLOCK.match(name)
    if match is None:
        return None if "{i}" in name else table.get(name)
    layer = match[1]
    row = table.get(f"blk.{{i}}.{name[match.end() :]}")
    match row:
        case str():
            return row.replace("{i}", layer)
        case Interleaved(inner, heads):
            return Interleaved(inner.replace("{i}", layer), heads)
        case PlusOne(inner):
            return PlusOne(inner.replace("{i}", layer))
        case _:
            return row
