"""A package that answers: logits, continuations, conversations."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from masu.runtime.backends import load_backend
from masu.runtime.chat import Chat, ChatParts
from masu.runtime.generate import Ending, Token, generate
from masu.runtime.model import Decoder, load_model
from masu.runtime.sampling import Sampling
from masu.runtime.token_run import boundaries
from masu.specs.codec import ChatCodecConfig, ReasoningEffort
from masu.specs.errors import RequestError
from masu.specs.model import LanguageModelConfig
from masu.specs.package import TOKENIZER, Package
from masu.specs.text.chat_codec import ChatCodec, Message, Tool
from masu.specs.text.tokenizer import PackageTokenizer
from masu.specs.text.vectors import check_vectors


def load(
    path: str | Path,
    dtype: str | None = None,
    backend: str | None = None,
    *,
    threads: int | None = None,
    activations: str | None = None,
) -> "LanguageModel":
    """The language model of a package.

    Args:
        dtype: of the activations (`float32`, `bfloat16` ...); None computes as the engine does.
        backend: None takes the best that there is.
        threads: for the native kernels, in this whole process; None leaves them as they are, which
            is at first as many as there are processors.
        activations: `int8` rounds what meets codes of 4 and 8 bits; None rounds nothing.

    Raises:
        PackageError: the package is not there, or breaks its own schema.
        RequestError: it is no language model, or the backend lacks something it needs.
        TextError: its tokenizer or template cannot be used.
    """
    package = Package.open(Path(path))
    chosen = load_backend(backend, threads=threads, activations=activations)
    return LanguageModel(load_model(package, dtype=dtype, backend=chosen), package)


class LanguageModel:
    """A loaded package.

    Attributes:
        decoder: tokens to logits.
        package: what was loaded.
        tokenizer: text to tokens.
        sampling: the package's defaults.
        stop_ids: tokens that end a reply.

    Raises:
        RequestError: the package is no language model.
        TextError: its tokenizer cannot be read.
        IntegrityError: it makes something else of text than when it was converted.
    """

    def __init__(self, decoder: Decoder, package: Package) -> None:
        if not isinstance(package.config, LanguageModelConfig):
            raise RequestError(f"{package.path} is a {package.config.type}, not a language model")
        self._config = package.config
        self.decoder = decoder
        self.package = package
        self.tokenizer = PackageTokenizer.open(package.path / TOKENIZER)
        check_vectors(package, self.tokenizer)
        self.sampling = Sampling.of_package(self._config.generation_config)
        self.stop_ids = self._config.generation_config.stop_token_ids

    @cached_property
    def codec(self) -> ChatCodec:
        """The package's conversations.

        Raises:
            RequestError: the package only continues text.
            TextError: its template or its reply pattern cannot be used.
        """
        config = self._config.token_codec_config
        if not isinstance(config, ChatCodecConfig):
            raise RequestError(
                f"{self.package.path} continues text and knows no conversations",
                hint="generate() continues a prompt; `masu run --raw` does so too",
            )
        return ChatCodec(config)

    def logits(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """Float32 logits `[tokens, vocab]` of a whole sequence."""
        return self.decoder.logits(ids)

    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        sampling: Sampling | None = None,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        logprobs: bool = False,
    ) -> Iterator[Token]:
        """Continues a text, or token ids, as they are, without the template.

        Args:
            prompt: nothing is added to ids; a text begins with the begin token, once, if the
                tokenizer puts one before a text.
            sampling: None takes the package's defaults.
            max_tokens: None for as many as the context holds.
            stop: texts before which the continuation ends.

        Raises:
            RequestError: at once, before anything is run; see `runtime.generate`.
        """
        return generate(
            self.decoder,
            self.tokenizer.encode_prompt(prompt) if isinstance(prompt, str) else prompt,
            sampling or self.sampling,
            Ending(max_tokens=max_tokens, stop_ids=self.stop_ids, stop_strings=stop),
            tokenizer=self.tokenizer,
            logprobs=logprobs,
        )

    def encode_chat(
        self,
        messages: Sequence[Message],
        *,
        reasoning_effort: ReasoningEffort | None = None,
        tools: Sequence[Tool] = (),
    ) -> list[int]:
        """Ids of a conversation up to where the assistant is to speak.

        Raises:
            RequestError: the template refuses the messages or ignores the tools, or the effort is
                unknown.
            TextError: the template fails.
        """
        prompt = self.codec.render(messages, reasoning_effort=reasoning_effort, tools=tools)
        return self.tokenizer.encode(prompt)

    def chat(
        self,
        *,
        system: str | None = None,
        sampling: Sampling | None = None,
        reasoning_effort: ReasoningEffort | None = None,
        tools: Sequence[Tool] = (),
    ) -> Chat:
        """A new conversation; see `Chat`."""
        parts = ChatParts(
            model=self.decoder,
            tokenizer=self.tokenizer,
            codec=self.codec,
            sampling=sampling or self.sampling,
            stop_ids=self.stop_ids,
            lengths=boundaries(self._config.decoder_config, self.decoder.context_length),
        )
        return Chat(parts, system=system, reasoning_effort=reasoning_effort, tools=tools)
