"""A loaded classifier's network: token ids in, logits of labels out, all tokens at once."""

import numpy as np

from masu.runtime.admission import admit
from masu.runtime.backend import Backend
from masu.runtime.blocks import classifier, decoder
from masu.runtime.blocks.classifier import ClassifierExitConfig
from masu.runtime.blocks.decoder import EntryConfig
from masu.runtime.loader import TensorSource
from masu.runtime.prompt import TokenIds, checked_ids
from masu.runtime.stack import Stack
from masu.runtime.strict_load import Opened, strict_load
from masu.runtime.weights import held_bytes
from masu.specs.errors import RequestError
from masu.specs.model import ClassifierModelConfig

SMALLEST = 64
"""Rows that a short text is padded to, so that one program serves many lengths."""


def load_encoder(
    source: TensorSource, *, dtype: str | None = None, backend: str | Backend | None = None
) -> "Encoder":
    """A classifier whose every tensor was asked for, found as expected, and read.

    Raises:
        RequestError: it is no classifier, or has blocks this runtime lacks; no such backend, or it
            lacks the dtype.
        SchemaError: config.json contradicts itself.
        TensorError: the tensors are not those that the blocks ask for.
    """
    config = admit(source.config)
    if not isinstance(config, ClassifierModelConfig):
        raise RequestError(
            f"a {config.type} is no classifier",
            hint="`masu run` and `masu chat` are for language models",
        )
    with strict_load(source, config.ROOT, dtype, backend) as opened:
        return Encoder(config, opened)


class Encoder:
    """Weights and compiled steps of a classifier. Made by `load_encoder`.

    Attributes:
        config: of the whole package.
        backend: what computes.
        dtype: of the activations.
        context_length: the most tokens of a text; None without a limit.
    """

    def __init__(self, config: ClassifierModelConfig, opened: Opened) -> None:
        loader, backend, dtype = opened
        model = config.classifier_config
        self.config, self.backend, self.dtype = config, backend, dtype
        self._entry = decoder.load_entry(model, loader)
        self._stack = Stack(model, loader, backend, dtype)
        self._exit = classifier.load_exit(model, loader)
        self.context_length = self._stack.context_length
        self._enter = backend.compile(decoder.enter, EntryConfig.of(model, dtype))
        self._leave = backend.compile(classifier.leave, ClassifierExitConfig.of(model))

    @property
    def weight_bytes(self) -> int:
        """Memory of the weights as the backend holds them, which need not be as they are stored."""
        return held_bytes((self._entry, self._stack.parameters, self._exit))

    def logits(self, ids: TokenIds) -> np.ndarray:
        """Float32 logits `[labels]` of a whole text.

        Every token sees every other one, so nothing is kept for a longer text. Memory grows with
        the square of the length: scores of all heads are held for one layer at a time.

        Raises:
            RequestError: no ids, an id outside the vocabulary, or more than the model's context.
        """
        tokens = checked_ids(ids, self.config.classifier_config.vocab_size)
        if self.context_length is not None and len(tokens) > self.context_length:
            raise RequestError(
                f"a text of {len(tokens)} tokens is longer than the model's {self.context_length}"
            )
        rows = max(SMALLEST, 1 << (len(tokens) - 1).bit_length())
        padded = np.pad(tokens, (0, rows - len(tokens)))
        start, length = np.int32(0), np.int32(len(tokens))
        rotations = self._stack.rotations(len(tokens))
        entered = self._enter(self._entry, padded, start, rotations)
        x, _ = self._stack.run(entered, self._stack.start(rows), start, length)
        found = self._leave(self._exit, x, length)
        return self.backend.to_numpy(found).astype(np.float32)
