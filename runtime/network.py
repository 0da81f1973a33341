"""Whatever turns ids into logits: the network of any package that reads text."""

from typing import TypeAlias

from masu.runtime.backend import Backend
from masu.runtime.encoder import Encoder, load_encoder
from masu.runtime.loader import TensorSource
from masu.runtime.model import Decoder, load_model
from masu.specs.model import ClassifierModelConfig

Network: TypeAlias = Decoder | Encoder


def load_network(
    source: TensorSource, *, dtype: str | None = None, backend: str | Backend | None = None
) -> Network:
    """The decoder of a language model, or the encoder of a classifier.

    Raises:
        RequestError, SchemaError, TensorError: as `load_model` and `load_encoder`.
    """
    is_classifier = isinstance(source.config, ClassifierModelConfig)
    load = load_encoder if is_classifier else load_model
    return load(source, dtype=dtype, backend=backend)
