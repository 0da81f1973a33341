"""The sequences that two models are compared at: texts, one of them past windows and contexts."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from masu.specs.blocks.attention import AttentionConfig
from masu.specs.blocks.mixer import parts
from masu.specs.blocks.rope import LlamaRoPEConfig, LongRoPEConfig, YARNRoPEConfig
from masu.specs.footprint import layers
from masu.specs.model import TextModelConfig
from masu.verification.noise import bits

SHORT = (
    "The capital of France is Paris.\ndef fibonacci(n):\n    return n\nOnce, in 1984, a fox",
    'Traduis : « Le chat dort. » 水は何度で沸騰しますか。 {"sides": [1, 2.5, -3e8]}',
)
LONG = "".join(f"{n}. Row {n} has {n * n} grains of rice.\n" for n in range(1, 81))
SHORT_TOKENS = 24
LEAST, MOST = 48, 512
"""Tokens of the long sequence: it goes past every window and every original context as far as it
can with `MOST`."""
BEYOND = 8

PLACEHOLDER = re.compile(r"(image|video|audio)_token_(id|index)")
"""Keys of config.json that name the ids in whose place a model with towers puts what these see."""


@dataclass(frozen=True)
class Prompts:
    """Attributes:
    sequences: ids, each `[tokens]`.
    unreached: what the longest of them does not reach the end of.
    """

    sequences: tuple[np.ndarray, ...]
    unreached: tuple[str, ...]

    @property
    def tokens(self) -> int:
        return sum(map(len, self.sequences))


def placeholders(raw: Mapping[str, Any]) -> frozenset[int]:
    """The ids that a checkpoint's config.json keeps for images, video and sound."""
    return frozenset(
        value for key, value in raw.items() if PLACEHOLDER.fullmatch(key) and type(value) is int
    )


def prompts_for(
    config: TextModelConfig, tokenizer: bytes, without: Collection[int] = ()
) -> Prompts:
    """For a model and its tokenizer.json; a vocabulary too small for text gets ids of its own.

    Args:
        without: ids that are no text.
    """
    from tokenizers import Tokenizer

    encoder = Tokenizer.from_buffer(tokenizer)
    usable = np.setdiff1d(np.arange(config.network.vocab_size), list(without))
    known = frozenset(usable.tolist())
    limits = dict(_limits(config))
    most = min([MOST, *_context(config)])
    reached = [length for length in limits.values() if length + BEYOND <= most]
    long = min(max([LEAST, *(length + BEYOND for length in reached)]), most)

    def encoded(text: str, count: int, seed: int) -> np.ndarray:
        ids = [i for i in encoder.encode(text, add_special_tokens=False).ids if i in known][:count]
        if len(ids) < count:  # short of text: ids as they come
            more = bits(len(ids), count, seed) % np.uint64(len(usable))
            ids += usable[more.astype(np.int64)].tolist()
        return np.array(ids, np.int64)

    shorts = [encoded(text, min(SHORT_TOKENS, most), seed) for seed, text in enumerate(SHORT)]
    unreached = [name for name, length in limits.items() if length >= long]
    return Prompts((*shorts, encoded(LONG, long, len(SHORT))), tuple(unreached))


def _limits(config: TextModelConfig) -> Iterator[tuple[str, int]]:
    """Lengths past which a model computes otherwise."""
    for layer in layers(config):
        for mixer in parts(layer.mixer_config):
            window = mixer.sliding_window_size if isinstance(mixer, AttentionConfig) else None
            if window is not None:
                yield f"the sliding window of {window}", window
        rope = layer.rope_config
        if isinstance(rope, LlamaRoPEConfig | LongRoPEConfig | YARNRoPEConfig):
            length = rope.original_context_length
            yield f"the original context of {length}", length


def _context(config: TextModelConfig) -> Iterator[int]:
    for layer in layers(config):
        if layer.rope_config is not None:
            yield layer.rope_config.max_sequence_length
