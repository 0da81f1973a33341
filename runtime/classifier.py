"""A package that names what a text is: logits and probabilities of labels."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from masu.runtime.backends import load_backend
from masu.runtime.encoder import Encoder, load_encoder
from masu.specs.codec import ChatCodecConfig
from masu.specs.errors import RequestError
from masu.specs.model import ClassifierModelConfig
from masu.specs.package import TOKENIZER, Package
from masu.specs.text.chat_codec import ChatCodec
from masu.specs.text.tokenizer import PackageTokenizer
from masu.specs.text.vectors import check_vectors


def load(
    path: str | Path,
    dtype: str | None = None,
    backend: str | None = None,
    *,
    threads: int | None = None,
    activations: str | None = None,
) -> "Classifier":
    """The classifier of a package.

    Args:
        dtype: of the activations (`float32`, `bfloat16` ...); None computes as the engine does.
        backend: None takes the best that there is.
        threads: for the native kernels, in this whole process; None leaves them as they are, which
            is at first as many as there are processors.
        activations: `int8` rounds what meets codes of 4 and 8 bits; None rounds nothing.

    Raises:
        PackageError: the package is not there, or breaks its own schema.
        RequestError: it is no classifier, or the backend lacks something it needs.
        TextError: its tokenizer or template cannot be used.
    """
    package = Package.open(Path(path))
    chosen = load_backend(backend, threads=threads, activations=activations)
    return Classifier(load_encoder(package, dtype=dtype, backend=chosen), package)


class Classifier:
    """A loaded package.

    Attributes:
        encoder: tokens to logits.
        package: what was loaded.
        tokenizer: text to tokens.
        labels: names in the order of the logits; `class_0`, `class_1` ... where the package has
            none, as in the engine.

    Raises:
        RequestError: the package is no classifier.
        TextError: its tokenizer cannot be read.
        IntegrityError: it makes something else of text than when it was converted.
    """

    def __init__(self, encoder: Encoder, package: Package) -> None:
        if not isinstance(package.config, ClassifierModelConfig):
            raise RequestError(f"{package.path} is a {package.config.type}, not a classifier")
        self._config = package.config
        self.encoder = encoder
        self.package = package
        self.tokenizer = PackageTokenizer.open(package.path / TOKENIZER)
        check_vectors(package, self.tokenizer)
        network = self._config.classifier_config
        default = tuple(f"class_{index}" for index in range(network.num_labels))
        self.labels = network.output_labels or default

    @cached_property
    def codec(self) -> ChatCodec | None:
        """How the package words a text; None if it takes it as it is.

        Raises:
            TextError: its template cannot be used.
        """
        config = self._config.token_codec_config
        return ChatCodec(config) if isinstance(config, ChatCodecConfig) else None

    def encode(self, text: str) -> list[int]:
        """Ids of a text as one message of a user, as the engine gives it to a classifier.

        Raises:
            RequestError: the template refuses the message.
            TextError: the template fails.
        """
        if self.codec is None:
            return self.tokenizer.encode_prompt(text)
        prompt = self.codec.render([{"role": "user", "content": text}])
        return self.tokenizer.encode(prompt)

    def logits(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """Float32 logits `[labels]` of a whole text."""
        return self.encoder.logits(ids)

    def classify(self, text: str) -> dict[str, float]:
        """How likely each label is, from 0 to 1: each by itself, they need not add up to 1.

        The engine takes the sigmoid of each logit, whatever the model was trained with.

        Raises:
            RequestError: the text is longer than the model's context, or its template refuses it.
            TextError: the template fails.
        """
        logits = self.logits(self.encode(text)).astype(np.float64)
        probabilities = np.exp(-np.logaddexp(0, -logits))  # no overflow, however large they are
        return dict(zip(self.labels, probabilities.tolist(), strict=True))
