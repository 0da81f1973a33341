"""The source as transformers computes it: loaded by transformers itself, not by the converter."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from masu.converter.checkpoint import Checkpoint
from masu.verification.heads import NoReference, head_of
from masu.verification.trace import Trace
from masu.verification.transformers_gguf import load_gguf
from masu.verification.transformers_quantised import load_quantised, quantisation_of

if TYPE_CHECKING:
    import torch

THREADS = 1
"""torch's threads wait in busy loops: beside other work two take many times as long as one."""


def is_installed() -> bool:
    return all(find_spec(name) is not None for name in ("torch", "transformers"))


def load(checkpoint: Checkpoint) -> Any:
    """The model, in float32 on the CPU, with attention in plain operations.

    Nothing is fetched, and no code of the checkpoint is run.

    Raises:
        NoReference: transformers is not installed, or does not load this checkpoint.
    """
    if not is_installed():
        raise NoReference("torch and transformers are not installed (pip install 'masu[verify]')")
    path = _path(checkpoint)
    with _quiet():
        try:
            is_gguf = path.suffix.lower() == ".gguf"
            model = load_gguf(path) if is_gguf else _load_folder(path, checkpoint)
        except NoReference:
            raise
        except Exception as error:  # whatever it meets: its loader has no errors of its own
            first = next(iter(str(error).splitlines()), "")
            said = f"{type(error).__name__}: {first:.200}"
            raise NoReference(f"transformers does not load the source: {said}") from error
    return model.eval()


def _path(checkpoint: Checkpoint) -> Path:
    """The folder, or the GGUF file."""
    files = {tensor.stored.path for tensor in checkpoint.tensors.values()}
    if all(path.suffix.lower() == ".gguf" for path in files):
        return next(iter(files))
    folders = {path.parent for path in files}
    if len(folders) != 1:
        raise NoReference("the weights lie in several folders")
    return next(iter(folders))


def _load_folder(folder: Path, checkpoint: Checkpoint) -> Any:
    quantisation = quantisation_of(checkpoint)
    if quantisation is None:
        model, told = _load_plain(folder)
    else:
        model, told = load_quantised(folder, checkpoint, quantisation)
    if missing := sorted(told["missing_keys"]):
        raise NoReference(f"transformers finds no weights for {', '.join(missing[:3])}")
    return model


def _load_plain(folder: Path) -> tuple[Any, Any]:
    import torch
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    return head_of(config).from_pretrained(
        folder,
        config=config,
        dtype=torch.float32,
        attn_implementation="eager",
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,  # never a pickle that lies beside them
        output_loading_info=True,
    )


def traced(model: Any, sequences: Sequence[np.ndarray], num_layers: int) -> list[Trace]:
    """What every layer got and made of each sequence.

    Raises:
        NoReference: its layers are not those of the package.
    """
    import torch

    layers = _layers(model, num_layers)
    with torch.inference_mode(), _threads(torch, THREADS):
        return [_trace(model, layers, ids) for ids in sequences]


def _trace(model: Any, layers: Sequence[Any], ids: np.ndarray) -> Trace:
    import torch

    given: list[np.ndarray] = []
    made: list[np.ndarray] = []

    def before(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given.append(_rows(args[0] if args else kwargs["hidden_states"], len(ids)))

    def after(module: Any, args: tuple[Any, ...], output: Any) -> None:
        made.append(_rows(output if torch.is_tensor(output) else output[0], len(ids)))

    handles = [layer.register_forward_pre_hook(before, with_kwargs=True) for layer in layers]
    handles += [layer.register_forward_hook(after) for layer in layers]
    try:
        logits = model(torch.tensor(ids)[None], use_cache=False).logits[0].numpy()
    finally:
        for handle in handles:
            handle.remove()
    return Trace(ids, (*given, made[-1]), made, logits)


def _rows(stream: "torch.Tensor", tokens: int) -> np.ndarray:
    if stream.ndim == 3 and len(stream) == 1:
        stream = stream[0]
    if stream.ndim != 2 or len(stream) != tokens:
        raise NoReference(f"a layer of transformers has a stream of shape {list(stream.shape)}")
    return stream.float().numpy().copy()


def _layers(model: Any, count: int) -> Sequence[Any]:
    """The layers of the language model: the one list of so many that is not of images or sound."""
    from torch.nn import ModuleList

    found = [
        module
        for name, module in model.named_modules()
        if isinstance(module, ModuleList) and name.rpartition(".")[2] == "layers"
        if len(module) == count and not any(part in name for part in ("vision", "audio"))
    ]
    if len(found) != 1:
        raise NoReference(f"transformers has no single list of {count} layers for this model")
    return list(found[0])


@contextmanager
def _quiet() -> Iterator[None]:
    """Without progress bars and remarks, as long as it lasts."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def _threads(torch: Any, count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
