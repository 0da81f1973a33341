"""A quantised folder as transformers computes it: the model is its own, the decoding where it can.

transformers decodes MXFP4 by itself. For other methods it needs libraries that run on few machines,
so its model is given the weights as masu decodes them, under their Hugging Face names: that leaves
config, names, orders of rows and every block to be compared. The decoders have tests of their own,
against the values that each method's own library gives.
"""

from pathlib import Path
from typing import Any

import numpy as np

from masu.converter.checkpoint import Checkpoint
from masu.converter.quantised import KEYS, Quantisation, find_quantisation, presented
from masu.verification.heads import NoReference, head_of

OWN_DECODING = frozenset({"mxfp4"})
"""Methods that transformers decodes on any CPU."""


def quantisation_of(checkpoint: Checkpoint) -> Quantisation | None:
    """How a folder is quantised; None if it is not."""
    return find_quantisation(checkpoint.config, checkpoint.name)


def decoding(checkpoint: Checkpoint) -> str | None:
    """What is to be told of a comparison in which masu has decoded the weights."""
    found = quantisation_of(checkpoint)
    if found is None or found.method.name in OWN_DECODING:
        return None
    return f"transformers was given the {found.method.name} weights as masu decodes them"


def load_quantised(folder: Path, checkpoint: Checkpoint, found: Quantisation) -> tuple[Any, Any]:
    """The model in float32, and what transformers told while it loaded it.

    Raises:
        NoReference: transformers would read these weights otherwise than they are stored.
    """
    import torch
    from transformers import AutoConfig
    from transformers.utils.quantization_config import Mxfp4Config

    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    options: dict[str, Any] = {
        "dtype": torch.float32, "attn_implementation": "eager", "local_files_only": True,
        "trust_remote_code": False, "use_safetensors": True, "output_loading_info": True,
    }  # fmt: skip
    if found.method.name in OWN_DECODING:
        own = Mxfp4Config(dequantize=True)
        return head_of(config).from_pretrained(folder, quantization_config=own, **options)
    if found.has_whole_norms(str(checkpoint.config.get("model_type"))):
        raise NoReference(f"{found.method.name} stores the norms of this family otherwise")
    weights = {
        name: torch.from_numpy(tensor.read(0, tensor.shape[0]).astype(np.float32))
        for name, tensor in presented(checkpoint, found).tensors.items()
    }
    kind, config = _class_of(config)
    del options["trust_remote_code"], options["use_safetensors"]
    return kind.from_pretrained(None, config=config, state_dict=weights, **options)


def _class_of(config: Any) -> tuple[Any, Any]:
    """The class itself, for a config that says nothing of codes."""
    kind = head_of(config)._model_mapping[type(config)]
    kind = kind[0] if isinstance(kind, tuple) else kind
    if kind.config_class is not type(config):
        config = config.get_text_config()
    for key in KEYS:
        if hasattr(config, key):
            delattr(config, key)
    return kind, config
