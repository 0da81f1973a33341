"""A GGUF file as transformers reads it: config, names and orders of rows are all its own."""

from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from masu.verification.heads import NoReference, head_of


def load_gguf(path: Path) -> Any:
    """The model in float32; the weights are decoded by the gguf library."""
    import torch
    from transformers import AutoConfig
    from transformers.initialization import no_init_weights
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    config = AutoConfig.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True)
    with no_init_weights():
        model = head_of(config).from_config(
            config, dtype=torch.float32, attn_implementation="eager"
        )
    # The names are all it asks the model for. A look into every submodule finds no more of them in
    # language models, and takes longer than all the rest.
    names = SimpleNamespace(config=config, state_dict=model.state_dict, named_children=tuple)
    with redirect_stderr(StringIO()):  # a progress bar that cannot be turned off
        loaded = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=names)
    weights = loaded["tensors"]
    found = model.load_state_dict(weights, strict=False)
    model.tie_weights()
    missing = set(found.missing_keys) - set(getattr(model, "_tied_weights_keys", None) or ())
    if missing or found.unexpected_keys:
        names = ", ".join(sorted({*missing, *found.unexpected_keys})[:3])
        raise NoReference(f"transformers reads other tensors from this GGUF file: {names}")
    return model
