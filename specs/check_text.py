"""The text side of a package: ids within the vocabulary, a template and a parser that compile."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from masu.specs.codec import ChatCodecConfig, TokenCodecConfig
from masu.specs.errors import TextError
from masu.specs.finding import Finding
from masu.specs.generation import GenerationConfig
from masu.specs.manifest import Manifest
from masu.specs.model import ClassifierModelConfig, LanguageModelConfig, ModelConfig
from masu.specs.package import CONFIG, TOKENIZER

if TYPE_CHECKING:
    from masu.specs.text.tokenizer import PackageTokenizer


def vector_findings(path: Path, config: ModelConfig, manifest: Manifest) -> Iterator[Finding]:
    """Text test vectors that no longer hold; a tokenizer or codec that fails is found elsewhere."""
    from masu.specs.text.tokenizer import PackageTokenizer
    from masu.specs.text.vectors import broken_vectors

    try:
        tokenizer = PackageTokenizer.open(path / TOKENIZER)
        for broken in broken_vectors(manifest.text_vectors, config, tokenizer):
            is_template = broken.vector.kind in ("chat", "reply")
            where = CONFIG if is_template or broken.vector.kind == "stop" else TOKENIZER
            yield Finding("template" if is_template else "tokenizer", where, str(broken))
    except TextError:
        return


def text_findings(path: Path, config: ModelConfig) -> Iterator[Finding]:
    """Checks tokenizer.json and every part of the config that speaks of text.

    A speculator has none: it speaks the tokens of the model it drafts for.
    """
    if isinstance(config, LanguageModelConfig):
        vocab = config.decoder_config.vocab_size
        yield from _id_findings(config.generation_config, vocab)
    elif isinstance(config, ClassifierModelConfig):
        vocab = config.classifier_config.vocab_size
    else:
        return
    yield from _codec_findings(config.token_codec_config)
    yield from _tokenizer_findings(path / TOKENIZER, config.token_codec_config, vocab)


def _id_findings(generation: GenerationConfig, vocab: int) -> Iterator[Finding]:
    """Token ids that name no row of the embedding; a stop that never comes is harmless."""
    for token in generation.stop_token_ids:
        if token >= vocab:
            end = f"the vocabulary ends at {vocab - 1}"
            message = f"generation_config.stop_token_ids: {token} can never appear: {end}"
            yield Finding("note", CONFIG, message)
    for token in generation.banned_tokens or ():
        if token >= vocab:
            message = f"generation_config.banned_tokens: expected ids below {vocab}, found {token}"
            yield Finding("tokenizer", CONFIG, message)


def _codec_findings(codec: TokenCodecConfig) -> Iterator[Finding]:
    from masu.specs.text.parser import compile_pattern
    from masu.specs.text.template import ChatTemplate

    if not isinstance(codec, ChatCodecConfig):
        return
    try:
        ChatTemplate(codec.prompt_template)
    except TextError as error:
        yield Finding("template", CONFIG, f"token_codec_config.prompt_template: {error.message}")
    if codec.output_parser_regex is None:
        return
    try:
        compile_pattern(codec.output_parser_regex)
    except TextError as error:
        yield Finding("template", CONFIG, f"token_codec_config.output_parser_regex: {error}")


def _tokenizer_findings(path: Path, codec: TokenCodecConfig, vocab: int) -> Iterator[Finding]:
    from masu.specs.text.tokenizer import PackageTokenizer

    try:
        tokenizer = PackageTokenizer.open(path)
    except TextError as error:
        yield Finding("tokenizer", TOKENIZER, error.message)
        return
    if tokenizer.size > vocab:
        token, last = tokenizer.token(tokenizer.size - 1), tokenizer.size - 1
        message = f"token {token!r} has id {last}; the model's vocabulary ends at {vocab - 1}"
        # Checkpoints add tokens that their text model has no row for (Gemma 3's image token).
        added = tokenizer.base_size <= vocab
        yield Finding("note" if added else "tokenizer", TOKENIZER, message)
    if isinstance(codec, ChatCodecConfig):
        yield from _special_token_findings(tokenizer, codec)


def _special_token_findings(
    tokenizer: "PackageTokenizer", codec: ChatCodecConfig
) -> Iterator[Finding]:
    for name in ("eos_token", "bos_token"):
        token = getattr(codec, name)
        if token is not None and tokenizer.id_of(token) is None:
            message = f"token_codec_config.{name}: {token!r} is not a token of {TOKENIZER}"
            yield Finding("tokenizer", CONFIG, message)
